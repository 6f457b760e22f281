"""Asking a side for its handback, and the draft that it wrote: kept until the side goes on."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError, TurnOpen
from sidechat_web.runtime import dispatch, queue
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import QueueItem, Session

from . import frame, note, turns
from .delivered import merged_into
from .turns import Draft, SideTurn

_FIRST_LINE_CHARS = 150  # what the note's own first line takes of the cap, about
_LISTED_TURNS = 12


def handback(side: Session) -> Draft | None:
    """The draft for all there is; None while the side is being asked for it, which this starts.

    Raises SidechatError `not_a_side`, `turn_open` or `nothing_new`.
    """
    check_side(side)
    with transaction.atomic():
        side = log.lock(side.pk)
        own = turns.own(side)
        draft = turns.draft(own)
        if draft is None and not is_writing(side, own):
            check_settled(side, own)
            ask(side, own)
        return draft


def drafted(side: Session) -> Draft | None:
    """The draft that `handback` asked for; None while it is being written.

    Raises SidechatError `handback_failed`, `handback_stopped` or `handback_empty`, and `nothing_new`
    where the side went on instead.
    """
    writing = is_writing(side)
    own = turns.own(side)
    draft = turns.draft(own)
    if draft is not None:
        return draft
    if writing or is_writing(side, own):
        return None
    tried = turns.handbacks_at(own, turns.through_seq(own) or 0)
    if not tried:
        raise SidechatError("the side went on before the handback was written: ask for it again", "nothing_new")
    raise failure(tried[-1])


def proposal(side: Session, draft: Draft) -> note.Note:
    """The draft as it can be reviewed: what of it fits into the note, without the note's first line."""
    whole = capped(side, draft.text)
    return note.Note(whole.text.removeprefix(note.first_line(side.title, side.log_id)), whole.truncated)


def capped(side: Session, body: str) -> note.Note:
    """The whole note as it would enter the parent."""
    return note.compose(side.title, side.log_id, body, settings.SIDECHAT_HANDBACK_MAX_CHARS)


def check_side(session: Session) -> None:
    """Raises SidechatError `not_a_side` for a session that has no parent to write to."""
    if session.kind != Session.Kind.SIDE:
        raise SidechatError("only a side session can be merged back", "not_a_side")


def check_settled(side: Session, own: list[SideTurn]) -> int:
    """The `throughSeq` of what the side has said. Raises `turn_open` or `nothing_new`."""
    if turns.is_answering(own):
        raise TurnOpen("the side is answering; merge when the turn has ended")
    through = turns.through_seq(own)
    if through is None:
        raise SidechatError("there is nothing to merge yet: ask the side something first", "nothing_new")
    return through


def is_writing(side: Session, own: list[SideTurn] | None = None) -> bool:
    """Whether a handback is on its way: waiting in the queue, or, as `own` turns say, being written."""
    if own and own[-1].handback and own[-1].end is None:
        return True
    waiting = QueueItem.objects.filter(session=side, seq=None, event_type=ev.CONTEXT_MESSAGE)
    return waiting.filter(message__source__form=frame.HANDBACK_REQUEST).exists()


def ask(side: Session, own: list[SideTurn], share: int = 1) -> None:
    """Have the side write its handback, as a turn of its own, before anything else that waits.

    `share` is how many sides share the note.
    """
    room = max(100, (settings.SIDECHAT_HANDBACK_MAX_CHARS - _FIRST_LINE_CHARS) // share)
    questions = [(turn.number, turn.question) for turn in own if turn.asked is not None and not turn.handback]
    text = frame.handback_request(room, questions[-_LISTED_TURNS:], _already_merged(side))
    queue.put(side, frame.message(frame.HANDBACK_REQUEST, text), first=True)
    dispatch.enqueue(side.pk)


def failure(handback: SideTurn | None) -> SidechatError:
    """Why a handback turn brought no draft."""
    reason = (handback.reason if handback else None) or {}
    if reason.get("kind") == "error":
        said = reason.get("error", {}).get("message", "unknown error")
        return SidechatError(f"the handback failed: {said}", "handback_failed")
    if reason.get("kind") == "aborted":
        return SidechatError("the handback was stopped", "handback_stopped")
    return SidechatError("the side answered with an empty handback", "handback_empty")


def _already_merged(side: Session) -> frame.Earlier | None:
    """The last note of the side that main still has; its text only where it is not the side's own draft."""
    standing = [one for one in merged_into(side) if not one["retracted"]]
    if not standing:
        return None
    event = reading.event(side.parent, standing[-1]["seq"]) if side.parent else None
    if event is None or not event.data["source"].get("edited"):
        return frame.Earlier("")
    return frame.Earlier(ev.text_of(event.data).partition("\n")[2].strip())
