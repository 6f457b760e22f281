"""What happens to the tool calls of one step: parse, gate, execute, record exactly one result each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sidechat_web.core import events as ev
from sidechat_web.core.events import Block, Draft
from sidechat_web.storage import log
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Session

from . import gates
from .gates import Call, Deny, Tool

registry: dict[str, Tool] = {}


def refuse_or_answer(session_id: str, turn: int, step: int, blocks: Sequence[Block]) -> None:
    """Log every call with its result, in model order; sync, one transaction a call."""
    session = Session.objects.get(pk=session_id)
    for block in blocks:
        [call] = log.append(session_id, [_call(turn, step, block)], turn=turn)
        text, code = _outcome(session, block)
        error = {"name": "ToolDeniedError", "code": code}
        result = ev.tool_result(turn, step, block["id"], new_id(), text, call_seq=call.seq, is_error=True, error=error)
        log.append(session_id, [result], turn=turn)


def _call(turn: int, step: int, block: Block) -> Draft:
    data = {"turn": turn, "step": step, "callId": block["id"], "name": block["name"], "arguments": block["arguments"]}
    return Draft(ev.TOOL_CALL, data)


def _outcome(session: Session, block: Block) -> tuple[str, str]:
    try:
        arguments: Any = json.loads(block["arguments"] or "{}")
    except ValueError:
        return "The arguments are not valid JSON, so the tool was not run.", "BAD_ARGUMENTS"
    verdict = gates.judge(Call(session, block["id"], block["name"], arguments, registry.get(block["name"])))
    if isinstance(verdict, Deny):
        return verdict.reason, "DENIED"
    return f"There is no tool named {block['name']!r} in this session.", "UNKNOWN_TOOL"
