"""Asking the user before a tool changes something: durable, answered once, logged, never inherited.

An ask stands in the log (`approval/asked`) and as a row that can be answered; so does the answer
(`approval/decided`). What was allowed for the session is read off the session's own events.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.core.events import Draft
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Approval, Session

from . import commands
from .tools.gates import Allow, Ask, Call, Verdict

DECISIONS: Final = ("allow-once", "allow-session", "deny")
_OUTCOMES: Final = {"allow-once": "allowed-once", "allow-session": "allowed-once", "deny": "rejected"}


def gate(call: Call) -> Verdict:
    """Ask before a tool that may change something, unless the user allowed it for this session."""
    if call.tool is None or call.tool.read_only or call.name in allowed_for_session(call.session):
        return Allow()
    return Ask(f"{call.name} may change something.")


def allowed_for_session(session: Session) -> set[str]:
    """Tool names that the user allowed for the rest of this very session; a fork starts with none."""
    asked: dict[str, str] = {}
    allowed = set()
    for event in reading.events(session, after=session.own_from - 1, types=[ev.APPROVAL_ASKED, ev.APPROVAL_DECIDED]):
        if event.type == ev.APPROVAL_ASKED:
            asked[event.data["id"]] = event.data["toolName"]
        elif event.data.get("scope") == "session" and event.data["id"] in asked:
            allowed.add(asked[event.data["id"]])
    return allowed


def ask(session: Session, turn: int, call: Call, raw_arguments: str, reason: str) -> Approval:
    """Log the ask and open it for an answer; the transaction must hold the session's lock."""
    approval_id = new_id()
    asked = {"id": approval_id, "toolName": call.name, "callId": call.call_id, "reason": reason}
    log.append_locked(session, [Draft(ev.APPROVAL_ASKED, asked)])
    _set_waiting(session, True)
    return Approval.objects.create(
        id=approval_id,
        session=session,
        turn=turn,
        call_id=call.call_id,
        tool=call.name,
        arguments=raw_arguments,
        reason=reason,
    )


@transaction.atomic
def decide(approval: Approval, decision: str) -> Approval:
    """Answer an open ask. Raises SidechatError `bad_decision` or `decided`."""
    if decision not in DECISIONS:
        raise SidechatError(f"decision must be one of {', '.join(DECISIONS)}, not {decision!r}", "bad_decision")
    session = log.lock(approval.session_id)
    approval.refresh_from_db()
    if approval.decision == decision:
        return approval
    if approval.decision:
        raise SidechatError(f"this was already decided: {approval.decision}", "decided")
    _record(session, approval, decision)
    commands.ring_after_commit(session.pk, "queue")
    return approval


def cancel_open(session: Session) -> None:
    """Close what is still asked when the turn ends; in the transaction that ends it, before its `turn/end`."""
    for approval in Approval.objects.filter(session=session, decision=""):
        _record(session, approval, Approval.Decision.CANCELLED)


def open_approvals(session: Session) -> list[Approval]:
    return list(Approval.objects.filter(session=session, decision="").order_by("created_at"))


def decision_of(approval_id: str) -> str:
    """The decision, or the empty string while it is open."""
    return Approval.objects.values_list("decision", flat=True).get(pk=approval_id)


def as_json(approval: Approval) -> dict[str, Any]:
    return {
        "id": approval.pk,
        "session": approval.session_id,
        "turn": approval.turn,
        "callId": approval.call_id,
        "tool": approval.tool,
        "arguments": approval.arguments,
        "reason": approval.reason,
        "createdAt": approval.created_at,
    }


def _record(session: Session, approval: Approval, decision: str) -> None:
    data: dict[str, Any] = {"id": approval.pk, "outcome": _OUTCOMES.get(decision, "cancelled")}
    if decision == Approval.Decision.ALLOW_SESSION:
        data["scope"] = "session"
    log.append_locked(session, [Draft(ev.APPROVAL_DECIDED, data)])
    approval.decision = decision
    approval.save(update_fields=["decision"])
    _set_waiting(session, Approval.objects.filter(session=session, decision="").exists())


def _set_waiting(session: Session, waiting: bool) -> None:
    session.waiting = waiting
    Session.objects.filter(pk=session.pk).update(waiting=waiting)
    commands.ring_after_commit(session.pk, "row")
