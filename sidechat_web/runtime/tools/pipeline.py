"""What happens to the tool calls of one step: parse, gate, execute, record exactly one result each.

The log is the state: a round that was interrupted while it waited for the user goes on from what is
logged. Read-only calls that stand together run together; anything else runs alone, in model order.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.events import Block, Draft
from sidechat_web.runtime import approvals
from sidechat_web.runtime.db import in_db
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Approval, Session

from . import gates, registry
from .gates import Ask, Call, Deny, Verdict
from .registry import Result, Tool, ToolError

CUT_MARK: Final = "\n[… cut: {left} more characters]"
_logger = logging.getLogger(__name__)

Decide = Callable[[str], Awaitable[str]]  # approval id → decision, when it is made


@dataclass(frozen=True, slots=True)
class Step:
    session_id: str
    turn: int
    step: int


@dataclass(slots=True)
class Planned:
    """One call with the host's verdict on it."""

    block: Block
    call: Call | None  # None: the arguments are not a JSON object
    verdict: Verdict
    seq: int | None = None  # of its tool/call, once logged
    approval: str | None = None  # the ask that it waits for

    @property
    def tool(self) -> Tool | None:
        return self.call.tool if self.call else None

    @property
    def together(self) -> bool:
        """Whether it may run beside its neighbours: it changes nothing and nobody is asked."""
        return not isinstance(self.verdict, Ask) and (self.tool is None or self.tool.read_only)


@dataclass(frozen=True, slots=True)
class Failure(Result):
    """A result with the error that the log records."""

    name: str = "ToolError"
    code: str = "FAILED"


async def run_calls(step: Step, blocks: Sequence[Block], decide: Decide) -> None:
    """Run every call that has no result yet, each after its gates, and record its result."""
    todo = await in_db(_unanswered, step, blocks)
    while todo:
        batch = todo[:1]
        while batch[-1].together and len(batch) < len(todo) and todo[len(batch)].together:
            batch.append(todo[len(batch)])
        todo = todo[len(batch) :]
        for planned in batch:
            if planned.seq is None:
                await in_db(_begin, step, planned)
        results = await asyncio.gather(*(_outcome(planned, decide) for planned in batch))
        for planned, result in zip(batch, results, strict=True):
            await in_db(_finish, step, planned, result)


@transaction.atomic
def abort_rest(step: Step, blocks: Sequence[Block]) -> None:
    """Answer what a stopped round left unanswered: each skipped call is logged with an error result."""
    approvals.cancel_open(_locked(step))
    for planned in _unanswered(step, blocks):
        if planned.seq is None:
            result = Failure(
                "The user stopped the turn before this tool was run.", True, {}, "AbortError", "ABORTED_BEFORE_DISPATCH"
            )
            _begin(step, planned, ask=False)
        else:
            text = "The user stopped the turn while this tool was running; what it had done by then stays done."
            result = Failure(text, True, {}, "AbortError", "ABORTED")
        _finish(step, planned, result)


def open_calls(step: Step) -> list[Block]:
    """The tool calls of the open step's answer, read off the log."""
    session = Session.objects.get(pk=step.session_id)
    blocks: list[Block] = []
    for event in reading.events(session, after=session.stable - 1, types=[ev.ASSISTANT_MESSAGE]):
        if event.data["step"] == step.step:
            blocks = [b for b in event.data["message"]["content"] if b["type"] == "tool-call"]
    return blocks


def _unanswered(step: Step, blocks: Sequence[Block]) -> list[Planned]:
    """The calls without a result, with verdicts; one that ran when its process died has an unknown outcome."""
    session = Session.objects.get(pk=step.session_id)
    called, answered = _logged(session, step)
    asked = {a.call_id: a.pk for a in Approval.objects.filter(session=session, turn=step.turn, decision="")}
    tools = registry.tools_of(session)
    out = []
    for block in blocks:
        if block["id"] in answered:
            continue
        planned = _plan(session, block, tools)
        planned.seq, planned.approval = called.get(block["id"]), asked.get(block["id"])
        if planned.seq is not None and planned.approval is None:
            planned.verdict = Deny("The server stopped while this tool was running, so its outcome is unknown.")
        out.append(planned)
    return out


def _logged(session: Session, step: Step) -> tuple[dict[str, int], set[str]]:
    called, answered = {}, set()
    for event in reading.events(session, after=session.stable - 1, types=[ev.TOOL_CALL, ev.TOOL_RESULT]):
        if event.data["step"] != step.step:
            continue
        if event.type == ev.TOOL_CALL:
            called[event.data["callId"]] = event.seq
        else:
            answered.add(event.data["message"]["source"]["callId"])
    return called, answered


def _plan(session: Session, block: Block, tools: dict[str, Tool]) -> Planned:
    try:
        arguments: Any = json.loads(block["arguments"] or "{}")
    except ValueError:
        return Planned(block, None, Deny("The arguments are not valid JSON, so the tool was not run."))
    if not isinstance(arguments, dict):
        return Planned(block, None, Deny("The arguments must be a JSON object, so the tool was not run."))
    call = Call(session, block["id"], block["name"], arguments, tools.get(block["name"]))
    return Planned(block, call, gates.judge(call))


@transaction.atomic
def _begin(step: Step, planned: Planned, *, ask: bool = True) -> None:
    """Log the call, and the ask where the user must decide."""
    session, block = _locked(step), planned.block
    data = {
        "turn": step.turn,
        "step": step.step,
        "callId": block["id"],
        "name": block["name"],
        "arguments": block["arguments"],
    }
    [event] = log.append_locked(session, [Draft(ev.TOOL_CALL, data)])
    planned.seq = event.seq
    if ask and isinstance(planned.verdict, Ask) and planned.call is not None:
        found = approvals.ask(session, step.turn, planned.call, block["arguments"], planned.verdict.reason)
        planned.approval = found.pk


async def _outcome(planned: Planned, decide: Decide) -> Result:
    if isinstance(planned.verdict, Deny):
        return Failure(planned.verdict.reason, True, {}, "ToolDeniedError", "DENIED")
    if planned.approval is not None and await decide(planned.approval) not in ("allow-once", "allow-session"):
        return Failure("The user did not allow this call. It was not run.", True, {}, "ToolDeniedError", "REJECTED")
    call = planned.call
    if call is None or call.tool is None:
        text = f"There is no tool named {planned.block['name']!r} in this session."
        return Failure(text, True, {}, "ToolError", "UNKNOWN_TOOL")
    return await _execute(call.tool, call)


async def _execute(tool: Tool, call: Call) -> Result:
    started = time.monotonic()
    try:
        async with asyncio.timeout(tool.timeout_seconds):
            result = await tool.run(Path(call.session.cwd or "/nonexistent"), call.arguments)
    except ToolError as e:
        result = Failure(str(e), True)
    except TimeoutError:
        text = f"{tool.name} did not finish within {tool.timeout_seconds:g} seconds and was stopped."
        result = Failure(text, True, {}, "ToolError", "TIMEOUT")
    except Exception:
        _logger.exception("the tool %s failed", tool.name)
        result = Failure(f"{tool.name} failed unexpectedly.", True)
    return _capped(result, round((time.monotonic() - started) * 1000))


def _capped(result: Result, duration_ms: int) -> Result:
    cap, meta = registry.OUTPUT_CAP_CHARS, {**result.meta, "durationMs": duration_ms}
    text = result.text
    if len(text) > cap:
        text = text[:cap] + CUT_MARK.format(left=len(text) - cap)
    if isinstance(result, Failure):
        return Failure(text, True, meta, result.name, result.code)
    return Result(text, result.is_error, meta)


@transaction.atomic
def _finish(step: Step, planned: Planned, result: Result) -> None:
    session = _locked(step)
    error = {"name": result.name, "code": result.code} if isinstance(result, Failure) else None
    draft = ev.tool_result(
        step.turn,
        step.step,
        planned.block["id"],
        new_id(),
        result.text,
        call_seq=planned.seq,
        is_error=result.is_error,
        error=error,
        meta=result.meta or None,
    )
    log.append_locked(session, [draft])


def _locked(step: Step) -> Session:
    session = log.lock(step.session_id)
    if session.open_turn != step.turn:
        raise log.TurnGone(f"turn {step.turn} of {step.session_id} is no longer open")
    return session
