"""This process's feeds, by session, and the slow rounds that find what no bell announced."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from sidechat_web.runtime import live
from sidechat_web.runtime.db import in_db
from sidechat_web.runtime.live import Delta, Topic

from . import access, reader
from .feed import Feed
from .outlet import Outlet
from .rendering import Info
from .tree import TreeFeed

MARKS_SECONDS: Final = 1.0
KIN_SECONDS: Final = 0.15
ROWS_SECONDS: Final = 5.0
ACCESS_SECONDS: Final = 10.0
FAREWELL_SECONDS: Final = 1.0
_logger = logging.getLogger(__name__)


class Hub:
    """Lives on one event loop; `rang` may be called from any thread."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        live.start()
        self.tree = TreeFeed()
        self._feeds: dict[str, Feed] = {}
        self._children: set[str] = set()  # sessions that changed, whose parents are not told yet
        self._outlets: set[Outlet] = set()
        self._deserted = asyncio.Event()
        self._deserted.set()
        self._unlisten = live.listen(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawn(_every(MARKS_SECONDS, self._compare_marks))
        self._spawn(_every(ROWS_SECONDS, self.tree.look))
        self._spawn(_every(ACCESS_SECONDS, self.check_access))

    # -- sockets ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def feed(self, session_id: str, info: Info) -> AsyncIterator[Feed | None]:
        """The session's feed, standing at its head, for as long as it is held; None where the session is gone."""
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._feeds[session_id] = Feed(session_id, info)
        feed.holders += 1
        try:
            yield feed if await feed.opened() else None
        finally:
            feed.holders -= 1
            if not feed.holders:
                self._feeds.pop(session_id).close()

    @contextmanager
    def watched(self, outlet: Outlet) -> Iterator[None]:
        """Have `outlet` leave when it loses its access, or when the server stops."""
        self._outlets.add(outlet)
        self._deserted.clear()
        try:
            yield
        finally:
            self._outlets.discard(outlet)
            if not self._outlets:
                self._deserted.set()

    async def shutdown(self) -> None:
        """Say good-bye to every socket; waits for them, but not long."""
        for outlet in self._outlets:
            outlet.leave("shutdown")
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._deserted.wait()

    def close(self) -> None:
        self._unlisten()
        for task in self._tasks:
            task.cancel()
        self.tree.close()

    # -- bells -----------------------------------------------------------------------------------

    def rang(self, session_id: str, topic: Topic) -> None:
        if topic != "chunks" or session_id in self._feeds:
            self.loop.call_soon_threadsafe(self._rang, session_id, topic)

    def streamed(self, session_id: str, delta: Delta) -> None:
        if feed := self._feeds.get(session_id):
            feed.streamed(delta)

    def _rang(self, session_id: str, topic: Topic) -> None:
        if self._feeds and topic in ("log", "row", "gone"):
            self._note_child(session_id)
        if topic == "access":
            self._spawn(_guarded(self.check_access))
        if feed := self._feeds.get(session_id):
            feed.rang(topic)
        self.tree.rang(session_id, topic)

    # -- parents ---------------------------------------------------------------------------------

    def _note_child(self, session_id: str) -> None:
        """Have the parent's feed look at its children soon."""
        if not self._children:
            self.loop.call_later(KIN_SECONDS, lambda: self._spawn(_guarded(self._tell_parents)))
        self._children.add(session_id)

    async def _tell_parents(self) -> None:
        children, self._children = self._children, set()
        for parent in await in_db(reader.parents, children, list(self._feeds)):
            if feed := self._feeds.get(parent):
                feed.rang("row")

    # -- slow rounds -----------------------------------------------------------------------------

    async def _compare_marks(self) -> None:
        """Have every feed compare its log's head with the one in the database."""
        if self._feeds:
            marks = await in_db(reader.marks, list(self._feeds))
            for session_id, feed in self._feeds.items():
                feed.saw(marks.get(session_id))

    async def check_access(self) -> None:
        """Close the sockets whose caller may no longer see what they show."""
        asked = {outlet: (outlet.credential, outlet.session_id) for outlet in self._outlets}
        if asked:
            lost = await in_db(access.lost, set(asked.values()))
            for outlet, pair in asked.items():
                if pair in lost:
                    outlet.leave(lost[pair])

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task outside any request, whose context ends before it."""
        task = self.loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


Job = Callable[[], Coroutine[Any, Any, None]]


async def _every(seconds: float, job: Job) -> None:
    while True:
        await asyncio.sleep(seconds)
        await _guarded(job)


async def _guarded(job: Job) -> None:
    try:
        await job()
    except Exception:
        _logger.exception("a round of the hub failed; the next one will do its work")


_hub: Hub | None = None


def hub() -> Hub:
    """The hub of the running loop, made on first use."""
    global _hub
    if _hub is None or _hub.loop is not asyncio.get_running_loop():
        if _hub is not None:
            _hub.close()
        _hub = Hub()
    return _hub


async def stop() -> None:
    """Say good-bye to every socket of this process, and return when they are closed or FAREWELL_SECONDS are over."""
    global _hub
    if _hub is not None:
        await _hub.shutdown()
        _hub.close()
        _hub = None
