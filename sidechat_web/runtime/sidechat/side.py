"""Opening, knowing and promoting a side; the gate that keeps it from acting; the lift of an ordinary fork."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError, TurnOpen
from sidechat_web.core.events import Draft
from sidechat_web.runtime import commands, sharing
from sidechat_web.runtime.tools.gates import Allow, Call, Deny, Verdict
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Session

from . import frame

_CONTEXT = (ev.CONTEXT_MESSAGE, ev.USER_MESSAGE)


@transaction.atomic
def open_side(
    parent: Session,
    *,
    owner: AbstractBaseUser | None = None,
    at_seq: int | None = None,
    title: str = "",
    model: str = "",
    text: str | None = None,
) -> Session:
    """A side session from `parent`'s stable prefix, or from the boundary at the message `at_seq`.

    Its first own event is the advisor frame; `text` is its first message, in the same transaction. Its `owner`
    is whoever asks; the owner of the parent, who is the owner by default, may always read and write it.
    """
    parent = log.lock(parent.pk)
    cut = commands.boundary_of(parent, at_seq)
    drafts = [frame.message(frame.ADVISOR, frame.ADVISOR_TEXT)]
    side = commands.branch(parent, cut, kind=Session.Kind.SIDE, drafts=drafts, owner=owner, title=title, model=model)
    sharing.with_owner_of(parent, side)
    if settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT:
        side.settings["header"] = {**side.settings["header"], "system": settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT}
        side.save(update_fields=["settings"])
    if text is not None:
        commands.say(side, text)
    return side


@transaction.atomic
def promote(side: Session) -> None:
    """Make a side an ordinary session: one more message lifts the framing, and with it the gate."""
    side = log.lock(side.pk)
    if not is_advisor(side):
        raise SidechatError("this session is not a side session, or was promoted already", "not_a_side")
    if side.open_turn is not None:
        raise TurnOpen("the side is answering; promote it when the turn has ended")
    log.append_locked(side, [frame.message(frame.PROMOTION, frame.PROMOTION_TEXT)])
    side.settings["promoted"] = True
    side.save(update_fields=["settings"])
    commands.ring_after_commit(side.pk, "row")


def is_advisor(session: Session) -> bool:
    """Whether the session's own events hold an advisor frame and no later promotion."""
    return frame.framed(reading.events(session, after=session.own_from - 1, types=_CONTEXT))


def gate(call: Call) -> Verdict:
    """In a side only tools run that the host knows to be read-only."""
    session = Session.objects.get(pk=call.session.pk)
    if not is_advisor(session) or (call.tool is not None and call.tool.read_only):
        return Allow()
    return Deny(
        f"This is a side session: it is a read-only advisor, so {call.name!r} was not run. Nothing was changed. "
        "The main session can do it, or the user can promote this side."
    )


def lift_of_fork(parent: Session, cut: int) -> list[Draft]:
    """What an ordinary fork of a side starts with: a message that lifts the framing it inherits."""
    if cut and frame.framed(reading.events(parent, stop=cut, types=_CONTEXT)):
        return [frame.message(frame.LIFT, frame.LIFT_TEXT)]
    return []


def knows(side: Session) -> dict[str, Any]:
    """What the side inherited: `{turn, running_turn, summary, behind}`.

    `turn` is the last inherited turn (0: none); `running_turn` the parent's turn that was running at the
    fork and is not included; `summary` the inherited turns `[A, B]` that a summary stands for; `behind`
    how many turns the parent has ended since.
    """
    seed = side.own_from
    ended = reading.tail(side, 1, before=seed, types=[ev.TURN_END])
    parent = side.parent
    living = parent is not None and parent.deleted_at is None
    since = (
        list(reading.events(parent, after=seed - 1, types=[ev.TURN_START, ev.TURN_END])) if parent and living else []
    )
    return {
        "turn": ended[0].data["turn"] if ended else 0,
        "running_turn": _running_at_fork(side, since),
        "summary": _summarised(side, seed),
        "behind": sum(1 for event in since if event.type == ev.TURN_END),
    }


def _running_at_fork(side: Session, since: list[ev.Event]) -> int | None:
    if not since or since[0].type != ev.TURN_START or since[0].time > side.created_at:
        return None
    ended = since[1].time if len(since) > 1 else None
    return since[0].turn if ended is None or ended >= side.created_at else None


def _summarised(side: Session, seed: int) -> list[int] | None:
    """The first and last turn that the inherited summaries stand for."""
    turns: set[int] = set()
    for summary in reading.events(side, stop=seed, types=[ev.COMPACTION_SUMMARY]):
        span = summary.data.get("shadowedRange") or {}
        low, high = min(span.values(), default=0), max(span.values(), default=-1)
        marks = reading.events(side, stop=high + 1, types=[ev.TURN_START])
        turns |= {mark.turn for mark in marks if mark.turn is not None and mark.seq <= high}
        if not turns and low <= high:
            turns.add(1)
    return [min(turns), max(turns)] if turns else None
