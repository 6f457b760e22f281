"""One turn: the durable steps are sync use cases, the stream between them is async.

A turn is owned by the runner that opened it. Every append names the turn, so a runner whose turn was
closed by someone else (repair, deletion) cannot write any more: it sees TurnGone and leaves.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.assembly import Assembly
from sidechat_web.core.errors import SidechatError
from sidechat_web.core.events import Draft
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.log import ChunkBatch
from sidechat_web.storage.models import Session

from . import approvals, compaction, headers, hooks, injections, live, queue, quotes, requests
from .adoption import adopt
from .db import in_db
from .flusher import Bodies, Flusher
from .providers import catalog, wire
from .providers.failures import ProviderFailure
from .providers.provider import Provider
from .tools import pipeline

MAX_RETRIES: Final = 5
_OVERFLOW: Final = re.compile(
    r"context.?(length|window|size|limit)|maximum context|too many tokens|prompt is too long|input is too long", re.I
)
_DELTAS: Final[dict[str, tuple[live.Kind, str]]] = {
    "text-delta": ("text", "text"),
    "reasoning-delta": ("reasoning", "text"),
    "tool-call-delta": ("tool-args", "argumentsDelta"),
}


@dataclass(slots=True)
class Turn:
    """An open turn that this process runs."""

    session_id: str
    number: int
    step: int = 1
    offsets: dict[int, int] = field(default_factory=dict)  # block index → code points streamed


@dataclass(frozen=True, slots=True)
class Request:
    provider: Provider
    model: str
    body: bytes


# --- durable steps (sync, one transaction each) ---


@transaction.atomic
def open_next(session_id: str, runner_id: str) -> Turn | None:
    """Start the next turn with the first pending input, logged and marked started at once.

    Delivers waiting injections first. None where a turn is open, nothing waits or the session is gone.
    """
    try:
        session = log.lock(session_id)
    except Session.DoesNotExist:
        return None
    if session.read_only or (session.open_turn is not None and not session.left_open):
        return None
    if queue.next_for_turn(session) is not None:
        adopt(session)
    injections.deliver(session)
    item = queue.next_for_turn(session)
    if item is None:
        return None
    number = session.last_turn + 1
    log.append_locked(session, [ev.turn_start(number), ev.step_start(number, 1)])
    [message] = log.append_locked(session, [queue.draft_of(item)])
    queue.started(item, message.seq)
    log.append_locked(session, [*_fallback_title(session, message), *headers.change(session)])
    Session.objects.filter(pk=session_id).update(runner=runner_id, stop_requested=False)
    _ring(session_id, "queue", "row")
    return Turn(session_id, number)


@transaction.atomic
def open_step(turn: Turn) -> None:
    """Start the turn's next step, with what was steered or injected into the running turn."""
    session = _lock_turn(turn)
    turn.step += 1
    turn.offsets = {}
    log.append_locked(session, [ev.step_start(turn.number, turn.step)])
    injections.deliver(session, into_turn_only=True)
    for item in queue.steers(session):
        [message] = log.append_locked(session, [queue.draft_of(item)])
        queue.started(item, message.seq)
    _ring(turn.session_id, "queue")


@transaction.atomic
def record(turn: Turn, bodies: Bodies, drafts: Sequence[Draft]) -> None:
    """Log the rest of a stream and what follows it."""
    _flush(turn, bodies)
    log.append(turn.session_id, drafts, turn=turn.number)


@transaction.atomic
def close(turn: Turn, bodies: Bodies, drafts: Sequence[Draft], reason: dict[str, Any]) -> None:
    """End the turn; what waited to be injected follows at once, before any queued input starts."""
    _flush(turn, bodies)
    session = _lock_turn(turn)
    log.append_locked(session, drafts)
    approvals.cancel_open(session)
    log.append_locked(session, [ev.turn_end(turn.number, reason)])
    injections.deliver(session)
    Session.objects.filter(pk=session.pk).update(runner="", stop_requested=False, unread=True)
    _ring(turn.session_id, "row", "merges")


@transaction.atomic
def take_over(session_id: str, alive: Callable[[], Collection[str]], runner_id: str) -> Turn | None:
    """Take up the open turn of a dead runner that waits for the user; None where there is none."""
    waiting = Session.objects.select_for_update(no_key=True).filter(pk=session_id, deleted_at=None, waiting=True)
    session = waiting.first()
    if session is None or session.open_turn is None or session.runner in alive():
        return None
    Session.objects.filter(pk=session_id).update(runner=runner_id)
    step = reading.tail(session, 1, types=[ev.STEP_START])[0].data["step"]
    return Turn(session_id, session.open_turn, step)


def next_request(turn: Turn) -> Request:
    """The next request, from the log alone. Raises SidechatError where it cannot be made."""
    session = Session.objects.get(pk=turn.session_id, deleted_at=None)
    surface = reading.surface(session)
    assert surface.header is not None
    config = surface.header["config"]
    return Request(catalog.provider_of(config), config["model"], requests.encode(session, surface))


def _is_compaction_due(turn: Turn) -> bool:
    return compaction.is_due(Session.objects.get(pk=turn.session_id, deleted_at=None))


def is_overflow(failure: dict[str, Any]) -> bool:
    """Whether a provider refused a request because it exceeds the model's window."""
    return failure.get("status") in (400, 413, None) and bool(_OVERFLOW.search(failure["message"]))


def _lock_turn(turn: Turn) -> Session:
    session = log.lock(turn.session_id)
    if session.open_turn != turn.number:
        raise log.TurnGone(f"turn {turn.number} of {turn.session_id} is no longer open")
    return session


def _flush(turn: Turn, bodies: Bodies) -> None:
    log.append_chunks([ChunkBatch(turn.session_id, turn.number, bodies)])


def _fallback_title(session: Session, message: ev.Event) -> list[Draft]:
    """A first title from the first thing said, so that no session stays nameless."""
    if session.title or message.type != ev.USER_MESSAGE:
        return []
    words = " ".join(quotes.own_words(message.data).split())
    title = words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + "…"
    return [ev.session_title(title, [message.seq], {"kind": "fallback"})] if title else []


def _ring(session_id: str, *topics: live.Topic) -> None:
    def ring_all() -> None:
        for topic in topics:
            live.ring(session_id, topic)

    transaction.on_commit(ring_all)


# --- the stream between them ---


class Stopped(Exception):
    """The user asked the turn to end."""


class TurnRun:
    """Runs one open turn to its end; `stop()` ends it with reason `aborted`."""

    def __init__(self, turn: Turn, flusher: Flusher) -> None:
        self.turn, self._flusher = turn, flusher
        self._request: Request | None = None
        self._task: asyncio.Task[Any] | None = None
        self._stopping = False
        self._compacted = False
        self._woken = asyncio.Event()

    def stop(self) -> None:
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Look again whether the user has decided what the turn waits for."""
        self._woken.set()

    async def run(self, *, resumed: bool = False) -> None:
        """Returns when the turn has ended, or when it is no longer ours.

        `resumed` takes up a turn that waited for the user when its process died: at its tool calls.
        """
        try:
            if not resumed or await self._tool_round(await in_db(pipeline.open_calls, self._step)):
                await self._steps()
        except (log.TurnGone, Session.DoesNotExist):
            self._flusher.take(self.turn.session_id)
            return
        await in_db(hooks.after_turn, self.turn.session_id, self.turn.number)

    async def _steps(self) -> None:
        while True:
            assembly = Assembly()
            try:
                await self._interruptible(self._answer(assembly))
            except Stopped:
                return await self._end(assembly, {"kind": "aborted", "reason": {"kind": "user"}})
            except ProviderFailure as e:
                return await self._end(assembly, {"kind": "error", "error": e.failure})
            except SidechatError as e:
                if isinstance(e, log.TurnGone):
                    raise
                return await self._end(assembly, {"kind": "error", "error": {"message": e.message, "code": e.code}})
            calls = [b for b in assembly.blocks() if b["type"] == "tool-call"]
            if not calls:
                kind = "max-tokens" if (assembly.finish or {}).get("kind") == "max-tokens" else "completed"
                return await self._end(assembly, {"kind": kind}, whole=True)
            await self._write(record, [self._message(assembly.blocks(), assembly.usage)])
            if not await self._tool_round(calls):
                return

    async def _interruptible(self, work: Any) -> None:
        """Await `work`, unless the user stops the turn. Raises Stopped."""
        if self._stopping:
            work.close()
            raise Stopped
        self._task = asyncio.ensure_future(work)
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            raise Stopped from None
        finally:
            self._task = None

    async def _answer(self, assembly: Assembly) -> None:
        if await in_db(_is_compaction_due, self.turn):
            await self._compact()
        self._request = request = await in_db(next_request, self.turn)
        for attempt in range(1, MAX_RETRIES + 2):
            try:
                return await self._stream(request, assembly)
            except ProviderFailure as e:
                if is_overflow(e.failure) and await self._compact():
                    await self._log_retry(request.provider, e.failure, attempt, 0)
                    self._request = request = await in_db(next_request, self.turn)
                elif not e.retryable or attempt > MAX_RETRIES:
                    raise
                else:
                    await self._wait_to_retry(request.provider, e.failure, attempt)

    async def _compact(self) -> bool:
        """Make room once in a turn; False where it was done already or failed, which leaves everything as it was."""
        if self._compacted:
            return False
        self._compacted = True
        try:
            await compaction.compact(self.turn.session_id, self.turn.number)
        except compaction.CompactionFailed:
            return False
        return True

    async def _stream(self, request: Request, assembly: Assembly) -> None:
        turn = self.turn
        async with aclosing(wire.stream(request.provider, request.body)) as chunks:
            async for chunk in chunks:
                assembly.add(chunk)
                self._flusher.add(
                    turn.session_id, turn.number, {"turn": turn.number, "step": turn.step, "chunk": chunk}
                )
                if chunk["type"] in _DELTAS:
                    self._pass_on(chunk)

    def _pass_on(self, chunk: dict[str, Any]) -> None:
        kind, name = _DELTAS[chunk["type"]]
        text, index = chunk[name], chunk["index"]
        offset = self.turn.offsets.get(index, 0)
        self.turn.offsets[index] = offset + len(text)
        live.delta(self.turn.session_id, live.Delta(self.turn.number, self.turn.step, index, kind, offset, text))

    async def _wait_to_retry(self, provider: Provider, failure: dict[str, Any], attempt: int) -> None:
        backoff_ms = int(500 * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))
        delay_ms = max(failure.get("providerRetryAfterMs", 0), backoff_ms)
        await self._log_retry(provider, failure, attempt, delay_ms)
        await asyncio.sleep(delay_ms / 1000)

    async def _log_retry(self, provider: Provider, failure: dict[str, Any], attempt: int, delay_ms: int) -> None:
        data = {
            "retryId": new_id(),
            "turn": self.turn.number,
            "step": self.turn.step,
            "provider": provider.name,
            "mode": "normal",
            "policyKey": "default",
            "retry": attempt,
            "maxRetries": MAX_RETRIES,
            "delayMs": delay_ms,
            "failure": failure,
        }
        await in_db(record, self.turn, self._flusher.take(self.turn.session_id), [Draft(ev.LLM_RETRY, data)])

    @property
    def _step(self) -> pipeline.Step:
        return pipeline.Step(self.turn.session_id, self.turn.number, self.turn.step)

    async def _tool_round(self, calls: Sequence[ev.Block]) -> bool:
        """Run the step's tool calls and open the next step; False where the turn ended instead."""
        step_ended = ev.step_end(self.turn.number, self.turn.step)
        try:
            await self._interruptible(pipeline.run_calls(self._step, calls, self._decision))
        except Stopped:
            await in_db(pipeline.abort_rest, self._step, calls)
            await self._close([step_ended], {"kind": "aborted", "reason": {"kind": "user"}})
            return False
        if self.turn.step >= settings.SIDECHAT_STEP_LIMIT:
            message = f"the turn reached its limit of {settings.SIDECHAT_STEP_LIMIT} steps; continue to go on"
            await self._close([step_ended], {"kind": "error", "error": {"message": message, "code": "STEP_LIMIT"}})
            return False
        await in_db(record, self.turn, [], [step_ended])
        await in_db(open_step, self.turn)
        return True

    async def _decision(self, approval_id: str) -> str:
        """The user's decision, whenever it comes."""
        while not (decision := await in_db(approvals.decision_of, approval_id)):
            self._woken.clear()
            await self._woken.wait()
        return decision

    async def _end(self, assembly: Assembly, reason: dict[str, Any], *, whole: bool = False) -> None:
        """Log the answer, or what was delivered of it, and end step and turn."""
        drafts = []
        if whole:
            drafts.append(self._message(assembly.blocks(), assembly.usage))
        elif kept := assembly.delivered():
            drafts.append(self._message(kept, assembly.usage, interrupted=True))
        await self._close([*drafts, ev.step_end(self.turn.number, self.turn.step)], reason)

    async def _close(self, drafts: list[Draft], reason: dict[str, Any]) -> None:
        await self._write(close, drafts, reason)

    async def _write(self, use_case: Callable[..., None], *args: Any) -> None:
        await in_db(use_case, self.turn, self._flusher.take(self.turn.session_id), *args)

    def _message(self, blocks: list[ev.Block], usage: dict[str, int] | None, *, interrupted: bool = False) -> Draft:
        assert self._request is not None
        source = {"kind": "model", "provider": self._request.provider.name, "model": self._request.model}
        message = {"id": new_id(), "role": "assistant", "content": blocks, "source": source}
        return ev.assistant_message(self.turn.number, self.turn.step, message, usage, interrupted)
