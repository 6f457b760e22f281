"""Merge back: one sourced note enters the parent, exactly once.

A click makes a `Merge` row under a key (side, throughSeq, hash of a user-written text). If the side has no
draft yet it is asked for one, as a turn of its own; when that turn ends the note is handed to the parent
as an injection. Each step is one transaction and is found again after a crash.

Locks are taken parent first, then side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError, TurnOpen
from sidechat_web.core.events import Replace
from sidechat_web.runtime import commands, dispatch, injections, live, queue
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Injection, QueueItem, Session

from . import frame, note, turns
from .models import Merge

LIVE = (Merge.State.DRAFTING, Merge.State.SUBMITTED)


def merge(side: Session, *, text: str | None = None, steer: bool = False) -> Merge:
    """Bring one note into the parent; `text` is the user's own or edited note.

    Returns the merge: delivered, pending (the parent's turn runs) or drafting (the side is being asked).
    The same content answers with the same merge. Raises SidechatError `turn_open`, `nothing_new`,
    `parent_gone`, `parent_read_only`, `not_a_side`.
    """
    with transaction.atomic():
        parent = _lock_parent(side)
        side = log.lock(side.pk)
        own = turns.own(side)
        draft = turns.draft(own)
        if text is not None:
            text = text.strip()
            commands.check_text(text)
        written = None if text is None or (draft is not None and text in _forms(side, draft)) else text
        key = _key(side, turns.through_seq(own), written)
        found = _rows().filter(key=key, state__in=LIVE).first()
        if found is not None:
            return found
        through = _check_allowed(side, own, written)
        made = Merge(side=side, parent=parent, key=key, through_seq=through, into_turn=steer)
        if written is not None:
            made.edited = True
            _submit(made, parent, side, written)
        elif draft is not None:
            _submit(made, parent, side, draft.text)
        else:
            _ask(side)
        made.save(force_insert=True)
        _ring(made)
    return made


def handback(side: Session) -> turns.Draft | None:
    """The draft for all there is; None while the side is being asked for it, which this starts."""
    with transaction.atomic():
        side = log.lock(side.pk)
        own = turns.own(side)
        draft = turns.draft(own)
        if draft is None and not _asked(side, own):
            _check_allowed(side, own, None)
            _ask(side)
        return draft


def drafted(side: Session) -> turns.Draft | None:
    """The draft that `handback` asked for; None while it is being written.

    Raises SidechatError `handback_failed`, `handback_stopped` or `handback_empty`, and `nothing_new`
    where the side went on instead.
    """
    waits = _waits_for_answer(side)
    own = turns.own(side)
    draft, last = turns.draft(own), turns.last_handback(own)
    if draft is not None:
        return draft
    if waits or (last is not None and last.end is None):
        return None
    if last is None:
        raise SidechatError("the side went on before the handback was written: ask for it again", "nothing_new")
    failure = _why_failed(last)
    raise SidechatError(failure["message"], failure["code"])


def proposal(side: Session, draft: turns.Draft) -> note.Note:
    """The draft as it can be reviewed: what of it fits into the note, without the note's first line."""
    whole = capped(side, draft.text)
    return note.Note(whole.text.removeprefix(note.first_line(side.title, side.log_id)), whole.truncated)


def why_not(side: Session) -> tuple[str, str] | None:
    """`(code, sentence)` where a merge is not allowed now; None where it is."""
    try:
        _check_parent(side)
        _check_allowed(side, turns.own(side), None)
    except SidechatError as e:
        return e.code, e.message
    return None


def capped(side: Session, body: str) -> note.Note:
    """The whole note as it would enter the parent."""
    return note.compose(side.title, side.log_id, body, settings.SIDECHAT_HANDBACK_MAX_CHARS)


def cancel(session: Session, merge_id: str) -> Merge:
    """Withdraw a merge that is not delivered yet. Raises SidechatError `not_found` or `delivered`."""
    with transaction.atomic():
        found = _rows().filter(_of(session), pk=merge_id).first()
        if found is None:
            raise SidechatError("no such merge", "not_found")
        if found.state == Merge.State.SUBMITTED and found.injection is not None:
            log.lock(found.parent_id)
            if not injections.cancel(found.injection):
                raise SidechatError("the note is already in the parent; retract it instead", "delivered")
        elif found.state != Merge.State.DRAFTING:
            raise SidechatError(f"this merge is already {found.public_state}", "delivered")
        found.state = Merge.State.CANCELLED
        found.save(update_fields=["state"])
        _ring(found)
    return found


@transaction.atomic
def retract(parent: Session, seq: int) -> ev.Event:
    """Take the note at `seq` off the parent's surface. Raises `turn_open`, `not_on_surface`, `parent_read_only`."""
    parent = log.lock(parent.pk)
    if parent.read_only:
        raise SidechatError(
            "this session is mirrored from another program and cannot be written here", "parent_read_only"
        )
    if parent.open_turn is not None:
        raise TurnOpen("the session is answering; retract the note when the turn has ended")
    event = reading.event(parent, seq)
    if event is None or frame.form_of(event) != frame.HANDBACK or seq not in reading.surface(parent).nodes:
        raise SidechatError(f"event {seq} is not a note that the model still sees", "not_on_surface")
    text = frame.message(frame.RETRACTION, frame.RETRACTION_TEXT, session=event.data["source"].get("session"))
    [done] = log.append_locked(parent, [ev.Draft(text.type, text.data, Replace(seq, seq), (seq,))])
    Merge.objects.filter(parent=parent, injection__seq=seq, state=Merge.State.SUBMITTED).update(
        state=Merge.State.RETRACTED
    )
    commands.ring_after_commit(parent.pk, "merges")
    return done


def merges_of(session: Session) -> list[dict[str, Any]]:
    """The merges from or into `session`, oldest first, in the API's shape."""
    return [as_json(row) for row in _rows().filter(_of(session)).order_by("created_at", "id")]


def as_json(row: Merge) -> dict[str, Any]:
    out: dict[str, Any] = {"id": row.pk, "side": row.side_id, "parent": row.parent_id, "state": row.public_state}
    if row.seq is not None:
        out["seq"] = row.seq
    if row.error:
        out["error"] = row.error
    return out


def merged_into(side: Session) -> list[dict[str, Any]]:
    """The side's notes in its parent, read off the parent's log: `{seq, time, throughSeq, retracted}`."""
    parent = side.parent
    if parent is None or parent.deleted_at is not None:
        return []
    found: dict[int, dict[str, Any]] = {}
    for event in reading.events(parent, types=[ev.CONTEXT_MESSAGE]):
        if isinstance(event.surface_op, Replace) and event.surface_op.start in found:
            found[event.surface_op.start]["retracted"] = True
        elif frame.form_of(event) == frame.HANDBACK and side.log_id in _sides_of(event):
            through = event.data["source"].get("throughSeq")
            found[event.seq] = {"seq": event.seq, "time": event.time, "throughSeq": through, "retracted": False}
    return list(found.values())


# --- what happens later ---


def turn_ended(side_id: str, turn: int) -> None:
    """Go on with the merges that waited for this side's handback."""
    for waiting in Merge.objects.filter(side=side_id, state=Merge.State.DRAFTING):
        _go_on(waiting.pk)


def recover() -> None:
    """Go on with merges that a crash left behind."""
    for waiting in Merge.objects.filter(state=Merge.State.DRAFTING):
        _go_on(waiting.pk)


def session_deleted(session: Session) -> None:
    """A deleted side or parent has no merges on the way any more."""
    for row in Merge.objects.filter(_of(session), state__in=LIVE).select_related("injection"):
        if row.state == Merge.State.SUBMITTED and row.injection is not None and not injections.cancel(row.injection):
            continue
        error = {
            "code": "parent_gone" if row.parent_id == session.pk else "side_gone",
            "message": "the session was deleted",
        }
        Merge.objects.filter(pk=row.pk).update(state=Merge.State.FAILED, error=error)


@transaction.atomic
def _go_on(merge_id: str) -> None:
    row = Merge.objects.select_related("side", "parent").get(pk=merge_id)
    try:
        parent, side = log.lock(row.parent_id), log.lock(row.side_id)
    except Session.DoesNotExist:
        return
    row.refresh_from_db()
    if row.state != Merge.State.DRAFTING or side.open_turn is not None or _waits_for_answer(side):
        return
    own = turns.own(side)
    draft, last = turns.draft(own), turns.last_handback(own)
    if draft is not None and draft.through_seq == row.through_seq:
        _submit(row, parent, side, draft.text)
    elif last is not None and (last.reason or {}).get("kind") == "interrupted":
        _ask(side)
        return
    else:
        row.state, row.error = Merge.State.FAILED, _why_failed(last)
    row.save()
    _ring(row)


def _submit(row: Merge, parent: Session, side: Session, body: str) -> None:
    """Hand the note to the parent: appended now, or when its turn ends."""
    whole = capped(side, body)
    draft = frame.message(
        frame.HANDBACK,
        whole.text,
        session=side.log_id,
        throughSeq=row.through_seq,
        truncated=whole.truncated,
        edited=row.edited,
    )
    row.truncated, row.state = whole.truncated, Merge.State.SUBMITTED
    row.injection = injections.inject(parent, draft, key=f"sidechat:{row.pk}", into_turn=row.into_turn)


def _forms(side: Session, draft: turns.Draft) -> tuple[str, str]:
    """The texts that are the draft itself: whole, and as it is shown for review."""
    return draft.text, proposal(side, draft).text


def _ask(side: Session) -> None:
    """Have the side write its handback, as a turn of its own, before anything else that waits."""
    text = frame.HANDBACK_REQUEST_TEXT.format(chars=settings.SIDECHAT_HANDBACK_MAX_CHARS - 150)
    if any(not done["retracted"] for done in merged_into(side)):
        text += frame.AGAIN_TEXT
    queue.put(side, frame.message(frame.HANDBACK_REQUEST, text), first=True)
    dispatch.enqueue(side.pk)


def _asked(side: Session, own: list[turns.SideTurn]) -> bool:
    """Whether a handback is on its way: waiting in the queue, or being written."""
    writing = bool(own) and own[-1].handback and own[-1].end is None
    return writing or _waits_for_answer(side)


def _waits_for_answer(side: Session) -> bool:
    return QueueItem.objects.filter(session=side, seq=None, event_type=ev.CONTEXT_MESSAGE).exists()


def _lock_parent(side: Session) -> Session:
    _check_parent(side)
    try:
        return log.lock(str(side.parent_id))
    except Session.DoesNotExist:
        raise SidechatError("the parent session was deleted; the note can still be copied", "parent_gone") from None


def _check_parent(side: Session) -> None:
    if side.kind != Session.Kind.SIDE:
        raise SidechatError("only a side session can be merged back", "not_a_side")
    if side.parent is None or side.parent.deleted_at is not None:
        raise SidechatError("the parent session was deleted; the note can still be copied", "parent_gone")
    if side.parent.read_only:
        raise SidechatError("the parent's log belongs to another program; the note can be copied", "parent_read_only")


def _check_allowed(side: Session, own: list[turns.SideTurn], written: str | None) -> int:
    """The `throughSeq` of a merge made now. Raises `turn_open` or `nothing_new`."""
    if side.open_turn is not None:
        raise TurnOpen("the side is answering; merge when the turn has ended")
    through = turns.through_seq(own)
    if through is None:
        raise SidechatError("there is nothing to merge yet: ask the side something first", "nothing_new")
    if written is None and through <= _merged_through(side):
        raise SidechatError("there is nothing new since the last merge", "nothing_new")
    return through


def _merged_through(side: Session) -> int:
    """How far the side's live notes reach; −1 where there is none."""
    live_merges = Merge.objects.filter(side=side, state__in=LIVE).exclude(injection__state=Injection.State.CANCELLED)
    return max(live_merges.values_list("through_seq", flat=True), default=-1)


def _key(side: Session, through: int | None, written: str | None) -> str:
    digest = "" if written is None else hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    return hashlib.sha256(f"{side.pk}\n{through}\n{digest}".encode()).hexdigest()


def _why_failed(last: turns.SideTurn | None) -> dict[str, str]:
    reason = (last.reason if last else None) or {}
    if reason.get("kind") == "error":
        failure = reason.get("error", {})
        return {"code": "handback_failed", "message": f"the handback failed: {failure.get('message', 'unknown error')}"}
    if reason.get("kind") == "aborted":
        return {"code": "handback_stopped", "message": "the handback was stopped"}
    return {"code": "handback_empty", "message": "the side answered with an empty handback"}


def _sides_of(event: ev.Event) -> Iterator[str]:
    source = event.data["source"]
    yield source.get("session", "")
    for one in source.get("sessions") or ():
        yield one.get("session", "")


def _of(session: Session) -> Q:
    return Q(side=session) | Q(parent=session)


def _rows() -> QuerySet[Merge]:
    return Merge.objects.select_related("side", "parent", "injection")


def _ring(row: Merge) -> None:
    def ring_both() -> None:
        live.ring(row.side_id, "merges")
        live.ring(row.parent_id, "merges")

    transaction.on_commit(ring_both)
