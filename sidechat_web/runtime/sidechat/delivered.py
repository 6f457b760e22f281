"""Notes that stand in a parent, read off its log: where a side's notes are, and taking one back."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError, TurnOpen
from sidechat_web.core.events import Event, Replace
from sidechat_web.runtime import commands
from sidechat_web.runtime.adoption import adopt
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Session

from . import frame
from .models import Merge


def merged_into(side: Session) -> list[dict[str, Any]]:
    """The side's notes in its parent: `{seq, time, throughSeq, retracted}`, oldest first."""
    parent = side.parent
    if parent is None or parent.deleted_at is not None:
        return []
    found: dict[int, dict[str, Any]] = {}
    for event in reading.events(parent, types=[ev.CONTEXT_MESSAGE]):
        if isinstance(event.surface_op, Replace) and event.surface_op.start in found:
            found[event.surface_op.start]["retracted"] |= frame.form_of(event) == frame.RETRACTION
        elif side.log_id in (reach := reach_of(event)):
            through = reach[side.log_id]
            found[event.seq] = {"seq": event.seq, "time": event.time, "throughSeq": through, "retracted": False}
    return list(found.values())


def reach_of(event: Event) -> dict[str, int | None]:
    """The sides that a note is out of, by log id in its order, and how far it covers each; empty for other events."""
    if frame.form_of(event) != frame.HANDBACK:
        return {}
    source = event.data["source"]
    several = source.get("sessions") or [source]
    return {str(one["session"]): one.get("throughSeq") for one in several if isinstance(one, dict) and "session" in one}


@transaction.atomic
def retract(parent: Session, seq: int) -> Event:
    """Take the note at `seq` off the parent's surface. Raises `turn_open`, `not_on_surface`, `parent_read_only`."""
    parent = log.lock(parent.pk)
    if parent.read_only:
        raise SidechatError(
            "this session is mirrored from another program and cannot be written here", "parent_read_only"
        )
    if parent.open_turn is not None and not parent.left_open:
        raise TurnOpen("the session is answering; retract the note when the turn has ended")
    event = reading.event(parent, seq)
    if event is None or frame.form_of(event) != frame.HANDBACK or seq not in reading.surface(parent).nodes:
        raise SidechatError(f"event {seq} is not a note that the model still sees", "not_on_surface")
    adopt(parent)
    text = frame.message(frame.RETRACTION, frame.RETRACTION_TEXT, **_origin(event))
    [done] = log.append_locked(parent, [ev.Draft(text.type, text.data, Replace(seq, seq), (seq,))])
    merges = Merge.objects.filter(parent=parent, injection__seq=seq, state=Merge.State.SUBMITTED)
    sides = list(merges.values_list("sources__side", flat=True))
    merges.update(state=Merge.State.RETRACTED)
    for session_id in {parent.pk, *sides}:
        commands.ring_after_commit(session_id, "merges")
    return done


def _origin(event: Event) -> dict[str, Any]:
    """The part of a note's source that names its sides."""
    source = event.data["source"]
    return {key: source[key] for key in ("session", "sessions") if key in source}
