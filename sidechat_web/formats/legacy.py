"""Upgrades of shapes that earlier versions of the format wrote, as its own reader makes them.

The file is never rewritten: an upgraded envelope stands beside the verbatim line. Exact key sets
are required, so that a damaged record is not taken for an old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidechat_web.core import events as ev
from sidechat_web.core.errors import RecordError
from sidechat_web.core.events import Json, safe_integer

Record = dict[str, Any]

_REFUSED = ("request/header-delta", "mode/set")
_BARE_REASONS = ("completed", "blocked", "max-tokens", "interrupted")


def retired(record: Mapping[str, Any]) -> str | None:
    """Why a record is refused whatever its envelope says, or None."""
    kind, data = record.get("type"), record.get("data")
    if kind in _REFUSED:
        return f"unsupported legacy {kind}"
    if kind == ev.REQUEST_HEADER and isinstance(data, dict) and data.get("reason") == "fallback":
        return "unsupported legacy request/header reason 'fallback'"
    return None


def upgraded(record: Record, session_id: str, result_ids: Mapping[int, str]) -> Record:
    """The record in today's shape; the very same object where nothing changes.

    `result_ids` has the message id of every earlier tool result: an old rewrite inherits its
    target's. Raises RecordError for a malformed old shape.
    """
    data = record.get("data")
    if not isinstance(data, dict):
        if record.get("type") == "steering/message":
            raise _malformed(record)
        return record
    match record.get("type"):
        case ev.TURN_START:
            return _turn_start(record, data)
        case ev.TURN_END:
            return _turn_end(record, data)
        case "steering/message":
            return _steering(record, data, session_id)
        case ev.USER_MESSAGE:
            return _user(record, data, session_id)
        case ev.CONTEXT_MESSAGE:
            return _context(record, data, session_id)
        case ev.ASSISTANT_MESSAGE:
            return _assistant(record, data, session_id)
        case ev.TOOL_RESULT:
            return _result(record, data, session_id, result_ids)
    return record


def _turn_start(record: Record, data: Record) -> Record:
    if "trigger" not in data:
        return record
    trigger = data["trigger"]
    kind = trigger.get("kind") if isinstance(trigger, dict) else None
    if not _turn(data) or data.keys() != {"turn", "trigger"} or not isinstance(kind, str) or not kind:
        raise _malformed(record)
    return {**record, "data": {"turn": data["turn"]}}


def _turn_end(record: Record, data: Record) -> Record:
    reason = data.get("reason")
    if not _turn(data) or data.keys() != {"turn", "reason"} or not isinstance(reason, dict):
        raise _malformed(record)
    today = _reason(record, reason)
    return record if today is reason else {**record, "data": {**data, "reason": today}}


def _reason(record: Record, reason: Record) -> Record:
    kind = reason.get("kind")
    if not isinstance(kind, str):
        raise _malformed(record)
    bare = reason.keys() == {"kind"}
    if kind == "aborted" and "reason" not in reason and bare:
        return {"kind": "aborted", "reason": {"kind": "legacy"}}
    if kind == "disposed" and bare:
        return {"kind": "aborted", "reason": {"kind": "disposed"}}
    if kind == "error" and "error" not in reason:
        return {"kind": "error", "error": _failure(record, reason)}
    needs_bare = kind in (*_BARE_REASONS, "disposed") or (kind == "aborted" and "reason" not in reason)
    if needs_bare and not bare:
        raise _malformed(record)
    return reason


def _failure(record: Record, reason: Record) -> Record:
    step = reason.get("step")
    if not safe_integer(step) or step < 0:
        raise _malformed(record)
    failure = reason.get("failure")
    if isinstance(failure, dict) and reason.keys() == {"kind", "step", "failure"} and _is_failure(failure):
        return failure
    code = reason.get("code", "UNKNOWN")
    if reason.keys() - {"code"} != {"kind", "step", "message"} or not _strings(reason["message"], code):
        raise _malformed(record)
    return {"message": reason["message"], "code": code}


def _is_failure(failure: Record) -> bool:
    extra = failure.keys() - {"message", "code"}
    return (
        extra <= {"status", "providerRetryAfterMs", "requestId"}
        and _strings(failure.get("message"), failure.get("code"))
        and all(_number(failure[key]) for key in extra - {"requestId"})
        and _strings(failure.get("requestId", ""))
    )


def _steering(record: Record, data: Record, session_id: str) -> Record:
    if not safe_integer(data.get("turn")):
        raise _malformed(record)
    if data.keys() == {"turn", "message"} and isinstance(data["message"], dict):
        return {**record, "type": ev.USER_MESSAGE, "data": data["message"]}
    if data.keys() != {"turn", "content", "source"}:
        raise _malformed(record)
    message = {"content": data["content"], "source": data["source"]}
    return {**record, "type": ev.USER_MESSAGE, "data": message | _identity(record, session_id)}


def _user(record: Record, data: Record, session_id: str) -> Record:
    if data.keys() & {"id", "role", "message"} or not data.keys() >= {"content", "source"}:
        return record
    return {**record, "data": data | _identity(record, session_id)}


def _context(record: Record, data: Record, session_id: str) -> Record:
    """Injected context of logs before mid-July 2026; the earliest lack even the surface mark."""
    today = _user(record, data, session_id)
    return {**today, "surfaceOp": "append"} if "surfaceOp" not in today else today


def _assistant(record: Record, data: Record, session_id: str) -> Record:
    if "message" in data or not data.keys() >= {"content", "provenance"}:
        return record
    rest = {k: v for k, v in data.items() if k not in ("content", "provenance")}
    provenance = data["provenance"] if isinstance(data["provenance"], dict) else {}
    message = {
        "id": _legacy_id(record, session_id),
        "role": "assistant",
        "content": data["content"],
        "source": {**provenance, "kind": "model"},
    }
    return {**record, "data": {**rest, "message": message}}


def _result(record: Record, data: Record, session_id: str, result_ids: Mapping[int, str]) -> Record:
    if "message" in data or not data.keys() >= {"callId", "content", "isError"}:
        return record
    rest = {k: v for k, v in data.items() if k not in ("callId", "content", "isError")}
    call_id = data["callId"]
    op = record.get("surfaceOp")
    replaced = op.get("start") if isinstance(op, dict) and op.get("op") == "replace" else None
    block = {"type": "tool-result", "toolCallId": call_id, "content": data["content"], "isError": data["isError"]}
    message = {
        "id": result_ids.get(replaced) if safe_integer(replaced) else _legacy_id(record, session_id),
        "role": "user",
        "content": [block],
        "source": {"kind": "tool", "callId": call_id},
    }
    return {**record, "data": {**rest, "message": message}}


def _identity(record: Record, session_id: str) -> Record:
    return {"id": _legacy_id(record, session_id), "role": "user"}


def _legacy_id(record: Record, session_id: str) -> str:
    return f"legacy-message:{session_id}:{record['seq']}"


def _malformed(record: Record) -> RecordError:
    return RecordError(f"malformed old {record.get('type')}")


def _turn(data: Record) -> bool:
    return safe_integer(data.get("turn")) and data["turn"] >= 1


def _strings(*values: Json) -> bool:
    return all(isinstance(value, str) for value in values)


def _number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
