"""Turns as asyncio tasks of this process.

A bell on a session starts its next turn, if none is open and something waits; many processes may hear
            self.stop_turn(stopped)
        for session_id in await in_db(self._elsewhere.grown):
            live.ring(session_id, "log")
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any, Final

from django.db.models import F, Q

from sidechat_web.storage.models import Injection, QueueItem, Session

from . import compaction, dispatch, hooks, jobs, live, repair
from .db import in_db
from .elsewhere import Elsewhere
from .flusher import Flusher
from .presence import Presence, alive
from .providers.catalog import NoModel
from .turn import Turn, TurnRun, open_next, take_over

ROUND_SECONDS: Final = 3.0
_logger = logging.getLogger(__name__)


class Runner:
    """All turns that this process runs. Lives on one event loop; `rang` may be called from any thread.

    `by_jobs`: start turns for jobs only, not for bells.
    """

    def __init__(self, *, by_jobs: bool = False) -> None:
        self._by_jobs = by_jobs
        self._loop = asyncio.get_running_loop()
        self._presence = Presence()
        self._flusher = Flusher()
        self._elsewhere = Elsewhere()
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._given_up: set[str] = set()  # sessions whose turn of ours may still be open
        self._runs: dict[str, TurnRun] = {}
        self._background: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Repair what dead runners left, take up what waits, then listen for bells."""
        await in_db(self._presence.arrive)
        self._unlisten = live.listen(self)
        await self._round()
        self._spawn(self._flusher.run())
        self._spawn(self._rounds())
        for service in hooks.services:
            self._spawn(service())

    async def stop(self) -> None:
        """Leave: running turns are abandoned (their streamed text is flushed) and closed as interrupted."""
        self._unlisten()
        tasks = [*self._background, *self._driving.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._flusher.flush()
        await in_db(self._leave)

    def rang(self, session_id: str, topic: live.Topic) -> None:
        if topic in ("queue", "gone"):
            self._loop.call_soon_threadsafe(self._poke, session_id)

    def streamed(self, session_id: str, delta: live.Delta) -> None:
        pass

    def _poke(self, session_id: str) -> None:
        if session_id in self._driving:
            self._again.add(session_id)
            if session_id in self._runs:
                self._runs[session_id].wake()
                self._spawn(self._obey(session_id))
        elif not self._by_jobs:
            self.drive(session_id)

    def drive(self, session_id: str) -> asyncio.Task[None]:
        """Run turns of one session until nothing waits; the task ends then."""
        if session_id not in self._driving:
            self._driving[session_id] = self._spawn(self._drive(session_id))
        return self._driving[session_id]

    def stop_turn(self, session_id: str) -> None:
        """End the session's running turn as Stop does."""
        if session_id in self._runs:
            self._runs[session_id].stop()

    async def _drive(self, session_id: str) -> None:
        try:
            left = await in_db(take_over, session_id, alive, self._presence.id)
            if left is not None:
                await self._run(left, resumed=True)
            while True:
                self._again.discard(session_id)
                if await in_db(_take_compaction, session_id):
                    await self._compact(session_id)
                turn = await in_db(open_next, session_id, self._presence.id)
                if turn is not None:
                    await self._run(turn)
                elif session_id not in self._again:
                    return
        except Exception:
            _logger.exception("running %s failed; its turn will be closed as interrupted", session_id)
            self._given_up.add(session_id)
        finally:
            self._driving.pop(session_id, None)
        await self._close_given_up()

    async def _close_given_up(self) -> None:
        """Close the turns whose running failed here; what failed them, a full disk say, may outlast several rounds."""
        for session_id in self._given_up - self._driving.keys():
            self._given_up.discard(session_id)
            try:
                await in_db(repair.close_abandoned, session_id, self._presence.id)
            except Exception:
                _logger.exception("closing the turn of %s failed; trying again", session_id)
                self._given_up.add(session_id)

    async def _run(self, turn: Turn, *, resumed: bool = False) -> None:
        run = self._runs[turn.session_id] = TurnRun(turn, self._flusher)
        try:
            await run.run(resumed=resumed)
        finally:
            self._runs.pop(turn.session_id, None)

    async def _compact(self, session_id: str) -> None:
        """A failed compaction is in the log, where the user sees it; the session goes on."""
        with contextlib.suppress(compaction.CompactionFailed, NoModel):
            await compaction.compact(session_id, None)

    async def _obey(self, session_id: str) -> None:
        for stopped in await in_db(_stops_among, [session_id]):
            self.stop_turn(stopped)

    async def _rounds(self) -> None:
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            try:
                await self._round()
            except Exception:
                _logger.exception("the runner's round failed; trying again")

    async def _round(self) -> None:
        await in_db(self._presence.beat)
        await self._close_given_up()
        if self._by_jobs:
            await jobs.release_stalled()
        for session_id in await in_db(_find_work):
            self._poke(session_id)
        for run in self._runs.values():
            run.wake()
        for stopped in await in_db(_stops_among, list(self._runs)):
            self.stop_turn(stopped)
        for session_id in await in_db(self._elsewhere.grown):
            live.ring(session_id, "log")

    def _leave(self) -> None:
        repair.repair_abandoned(alive() - {self._presence.id})
        self._presence.leave()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task outside any request: the spawning request's context (and its database thread) ends before it."""
        task = self._loop.create_task(work, context=contextvars.Context())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _find_work() -> list[str]:
    """Repair abandoned turns, let plug-ins recover, and hand on the sessions where something waits for a runner."""
    left = [session.pk for session in repair.repair_abandoned(alive())]
    hooks.each(hooks.recover)
    queued = QueueItem.objects.filter(seq=None).values("session_id")
    injected = Injection.objects.filter(state=Injection.State.PENDING).values("session_id")
    idle = Session.objects.filter(
        Q(open_turn=None) | Q(stable__lt=F("foreign_length")), deleted_at=None, read_only=False
    )
    due = Q(pk__in=queued) | Q(pk__in=injected) | Q(compact_requested=True)
    found = [*left, *idle.filter(due).values_list("pk", flat=True)]
    if dispatch.by_jobs():
        for session_id in found:
            dispatch.enqueue(session_id)
    return found


def _take_compaction(session_id: str) -> bool:
    """Whether a compaction was asked for and can be done now; the request is taken, by one process."""
    asked = Session.objects.filter(pk=session_id, compact_requested=True, open_turn=None, deleted_at=None)
    return asked.update(compact_requested=False) == 1


def _stops_among(session_ids: list[str]) -> list[str]:
    """Those of the running sessions that shall stop: asked to, or deleted."""
    if not session_ids:
        return []
    return list(Session.objects.filter(pk__in=session_ids, stop_requested=True).values_list("pk", flat=True))


_runner: Runner | None = None


async def start(*, worker: bool = False) -> None:
    """Start what this process runs; once, whoever calls first. Where turns are jobs, only a worker runs them."""
    global _runner
    live.start()
    if _runner is None and (worker or not dispatch.by_jobs()):
        _runner = Runner(by_jobs=worker)
        await _runner.start()


def here() -> Runner:
    """This process's runner. Raises RuntimeError where it has none."""
    if _runner is None:
        raise RuntimeError("this process runs no turns")
    return _runner


async def stop() -> None:
    global _runner
    runner, _runner = _runner, None
    if runner is not None:
        await runner.stop()
    await live.stop()
