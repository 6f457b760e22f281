"""Closers: the events that end a turn whose runner is gone. The log is closed, never truncated.

Order and payloads are those of the log format's crash repair; the wording of the two result texts
is ours. In our own logs the streamed part of an answer is kept first, as an interrupted message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from . import events as ev
from .assembly import Assembly
from .events import Draft, Event, Json, blocks_of

OUTCOME_UNKNOWN: Final = (
    "The session stopped while this tool was running, so its outcome is unknown: it may have done nothing, part of "
    "its work or all of it. Look at the current state before you rely on it, and do not simply run it again."
)
NOT_STARTED: Final = (
    "The session stopped before this tool was started. Nothing was done; call it again if it is needed."
)


@dataclass(slots=True)
class _Call:
    step: Json
    seq: int | None = None  # of its tool/call, once started


@dataclass(slots=True)
class _Scan:
    open: bool = False
    turn: Json = None
    step: Json = None
    last_seq: int = -1
    pending: dict[str, _Call] = field(default_factory=dict)
    chunks: list[dict[str, Any]] = field(default_factory=list)
    answered: bool = False  # the open step has its assistant message
    config: dict[str, Any] = field(default_factory=dict)


def closers(log: Iterable[Event], *, keep_partial_text: bool = False) -> list[Draft]:
    """What must be appended to close the open turn; empty where no turn is open.

    `keep_partial_text` (our own logs) first keeps what was streamed of an unfinished answer; the
    log must then include its chunk events. The drafts belong right after the last event, all with
    its time: idempotent, since their `turn/end` closes the turn.
    """
    scan = _Scan()
    for event in log:
        _observe(scan, event)
    if not scan.open:
        return []
    out: list[Draft] = []
    if keep_partial_text and not scan.answered:
        out += _partial_answer(scan)
    for call_id, call in scan.pending.items():
        out.append(_unanswered(scan, call_id, call, scan.last_seq + 1 + len(out)))
    if scan.step is not None:
        out.append(ev.step_end(scan.turn, scan.step))
    out.append(ev.turn_end(scan.turn, {"kind": "interrupted"}))
    return out


def _observe(scan: _Scan, event: Event) -> None:
    """Take one event in. Only messages were validated in an imported log, so other data may be anything."""
    scan.last_seq = event.seq
    data = event.data if isinstance(event.data, dict) else {}
    match event.type:
        case ev.TURN_START:
            scan.open, scan.turn, scan.step = True, data.get("turn"), None
            _forget(scan)
        case ev.TURN_END:
            scan.open, scan.turn, scan.step = False, None, None
            _forget(scan)
        case ev.STEP_START:
            scan.step = data.get("step")
            _forget_stream(scan)
        case ev.STEP_END:
            scan.step = None
            _forget(scan)
        case ev.REQUEST_HEADER:
            scan.config = data["header"]["config"]
        case ev.ASSISTANT_CHUNK:
            scan.chunks.append(data.get("chunk", {}))
        case ev.LLM_RETRY:
            scan.chunks = []
        case ev.ASSISTANT_MESSAGE:
            scan.answered = True
            for block in blocks_of(data["message"]["content"], "tool-call"):
                scan.pending.setdefault(str(block.get("id")), _Call(data.get("step")))
        case ev.TOOL_CALL:
            if (call := scan.pending.get(str(data.get("callId")))) is not None:
                call.seq = event.seq
        case ev.TOOL_RESULT:
            scan.pending.pop(data["message"]["source"]["callId"], None)


def _forget(scan: _Scan) -> None:
    scan.pending = {}
    _forget_stream(scan)


def _forget_stream(scan: _Scan) -> None:
    scan.chunks, scan.answered = [], False


def _partial_answer(scan: _Scan) -> list[Draft]:
    blocks = Assembly.of(scan.chunks).delivered()
    if not blocks or scan.step is None or not scan.config:
        return []
    message = {
        "id": f"interrupted-{scan.turn}-{scan.step}-{scan.last_seq + 1}",
        "role": "assistant",
        "content": blocks,
        "source": {"kind": "model", "provider": scan.config["provider"], "model": scan.config["model"]},
    }
    return [ev.assistant_message(scan.turn, scan.step, message, interrupted=True)]


def _unanswered(scan: _Scan, call_id: str, call: _Call, seq: int) -> Draft:
    started = call.seq is not None
    error = (
        {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
        if started
        else {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    )
    return ev.tool_result(
        scan.turn,
        call.step,
        call_id,
        f"interrupted-tool-result-{call_id}-{seq}",
        OUTCOME_UNKNOWN if started else NOT_STARTED,
        call_seq=call.seq,
        is_error=True,
        error=error,
    )
