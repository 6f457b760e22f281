"""The sidebar's rows as they change: one reading for all who watch, only to those who may see the row."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q

from sidechat_web.runtime.db import in_db
from sidechat_web.runtime.live import Topic
from sidechat_web.runtime.views import session_json
from sidechat_web.storage import access
from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.models import Session

from . import frames, html
from .outlet import Outlet
from .tape import Frame

GATHER_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 0.5
OVERLAP_MS: Final = 2_000  # between one look and the next: clocks differ, transactions take time
_TOPICS: Final = frozenset[Topic]({"log", "row", "gone", "access"})
_logger = logging.getLogger(__name__)


class TreeViewer(Outlet):
    """Says hello, then sends each row that changed, as it is by then."""

    def __init__(self, user: AbstractBaseUser, *args: Any, html: bool = False) -> None:
        super().__init__(*args, html=html)
        self.user = user
        self._changed: dict[str, Frame] = {}

    def put(self, session_id: str, frame: Frame) -> None:
        self._changed[session_id] = frame
        self.wake()

    async def _write(self) -> None:
        await self._send(html.welcome() if self.html else frames.welcome())
        while True:
            while self._changed:
                frame = self._changed.pop(next(iter(self._changed)))
                await self._send(frame.html if self.html else frame.json)
            await self._wait()


class TreeFeed:
    """All sidebars of this process. `rang` on the event loop only."""

    def __init__(self) -> None:
        self.viewers: set[TreeViewer] = set()
        self._changed: set[str] = set()
        self._looked = now_ms()
        self._bell = asyncio.Event()
        self._pump = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    @contextmanager
    def showing(self, viewer: TreeViewer) -> Iterator[None]:
        """Serve `viewer` meanwhile."""
        self.viewers.add(viewer)
        try:
            yield
        finally:
            self.viewers.discard(viewer)

    def rang(self, session_id: str, topic: Topic) -> None:
        if self.viewers and topic in _TOPICS:
            self._changed.add(session_id)
            self._bell.set()

    async def look(self) -> None:
        """Find rows that changed without a bell, in another process or while the channel layer was away."""
        if self.viewers:
            since, self._looked = self._looked, now_ms()
            for session_id in await in_db(_changed_since, since - OVERLAP_MS):
                self.rang(session_id, "row")

    def close(self) -> None:
        self._pump.cancel()

    async def _run(self) -> None:
        while True:
            await self._bell.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._bell.clear()
            changed, self._changed = self._changed, set()
            try:
                await self._tell(changed)
            except Exception:
                _logger.exception("reading %d rows failed; trying again", len(changed))
                await asyncio.sleep(RETRY_SECONDS)
                self._changed |= changed
                self._bell.set()

    async def _tell(self, changed: set[str]) -> None:
        users = {viewer.user.pk: viewer.user for viewer in self.viewers}
        rows = await in_db(_rows, list(users.values()), changed)
        for viewer in self.viewers:
            for session_id, frame in rows.get(viewer.user.pk, {}).items():
                viewer.put(session_id, frame)


def _changed_since(ms: int) -> list[str]:
    changed = Session.objects.filter(Q(updated_at__gte=ms) | Q(deleted_at__gte=ms))
    return list(changed.values_list("pk", flat=True))


def _rows(users: Collection[AbstractBaseUser], session_ids: Collection[str]) -> dict[Any, dict[str, Frame]]:
    """User → session id → frame, for what that user may see, or did once."""
    return {user.pk: _rows_of(user, session_ids) for user in users}


def _rows_of(user: AbstractBaseUser, session_ids: Collection[str]) -> dict[str, Frame]:
    lost = access.lost(user).filter(pk__in=session_ids)
    rows = {pk: Frame(frames.gone(pk), html.gone(pk)) for pk in lost.values_list("pk", flat=True)}
    for session in access.visible(user).filter(pk__in=session_ids):
        shape = session_json(session)
        rows[session.pk] = Frame(frames.row(shape), html.row(shape))
    return rows
