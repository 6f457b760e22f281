"""Merge back: one sourced note enters the parent, exactly once, out of one side or out of several.

A click makes a `Merge` row under a key (sides, throughSeqs, hash of a user-written text). A side that has
no draft yet is asked for one, as a turn of its own; when all have one the note is handed to the parent as
an injection. Each step is one transaction and is found again after a crash.

Locks are taken parent first, then the sides by id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import commands, injections
from sidechat_web.storage import log
from sidechat_web.storage.models import Injection, Session

from . import drafting, frame, note, turns
from .delivered import merged_into, retract
from .drafting import capped, drafted, handback, proposal
from .models import Merge, Source

__all__ = [
    "as_json",
    "cancel",
    "capped",
    "drafted",
    "handback",
    "merge",
    "merge_selected",
    "merged_into",
    "merges_of",
    "proposal",
    "retract",
    "why_not",
]

LIVE = (Merge.State.DRAFTING, Merge.State.SUBMITTED)


@dataclass(slots=True)
class _Part:
    """A side that the note is out of; `through` is how far it covers the side, None before the side's first turn."""

    side: Session
    own: list[turns.SideTurn]
    through: int | None
    draft: turns.Draft | None

    @classmethod
    def of(cls, side: Session, through: int | None = None) -> _Part:
        """As far as the side has come, or up to `through`."""
        own = turns.own(side)
        reach = turns.through_seq(own) if through is None else through
        return cls(side, own, reach, None if reach is None else turns.draft_at(own, reach))


class RefusedBySide(SidechatError):
    """A refusal that concerns one of several sides."""

    def __init__(self, side: Session, error: SidechatError) -> None:
        super().__init__(f"“{side.title or 'untitled'}”: {error.message}", error.code)
        self.side_id = side.pk


@contextmanager
def _naming(side: Session, sides: Sized) -> Iterator[None]:
    """Let a refusal name its side where there are several."""
    try:
        yield
    except SidechatError as e:
        if len(sides) == 1:
            raise
        raise RefusedBySide(side, e) from None


def merge(side: Session, *, text: str | None = None, steer: bool = False) -> Merge:
    """Bring one note into the parent; `text` is the user's own or edited note.

    Returns the merge: delivered, pending (the parent's turn runs) or drafting (the side is being asked).
    The same content answers with the same merge. `steer` lets the note enter the parent's running turn, also
    where it is pending already. Raises SidechatError `turn_open`, `nothing_new`, `parent_gone`,
    `parent_read_only`, `not_a_side`.
    """
    return merge_selected([side], text=text, steer=steer)


def merge_selected(sides: Sequence[Session], *, text: str | None = None, steer: bool = False) -> Merge:
    """Bring one note out of several sides of one parent: each is asked for its handback, drafts are reused.

    The order is that in which the sides were opened. Refusals are those of `merge` and name the side;
    `other_parent` where the sides are not of one parent, `too_many_sides` where the cap is too small for them.
    """
    if text is not None:
        text = text.strip()
        commands.check_text(text)
    with transaction.atomic():
        parent, parts = _lock(sides)
        written = None if text is not None and text in _own_forms(parts) else text
        key = _key(parts, written)
        found = _rows().filter(key=key, state__in=LIVE).first()
        if found is not None:
            return _hasten(found) if steer else found
        made = Merge(parent=parent, key=key, into_turn=steer, edited=written is not None)
        sources = [Source(merge=made, side=p.side, through_seq=_allowed(p, parts, written)) for p in parts]
        made.save(force_insert=True)
        Source.objects.bulk_create(sources)
        whole = _compose(parts, written)
        if written is not None or all(part.draft for part in parts):
            _submit(made, parent, parts, whole)
        else:
            _ask(parts)
        made = _rows().get(pk=made.pk)
        _ring(made)
    return made


def why_not(side: Session) -> tuple[str, str] | None:
    """`(code, sentence)` where a merge is not allowed now; None where it is."""
    try:
        _check_parent(side)
        part = _Part.of(side)
        _allowed(part, [part], None)
    except SidechatError as e:
        return e.code, e.message
    return None


def cancel(session: Session, merge_id: str) -> Merge:
    """Withdraw a merge that is not delivered yet. Raises SidechatError `not_found` or `delivered`."""
    with transaction.atomic():
        found = _rows().filter(_of(session), pk=merge_id).first()
        if found is None:
            raise SidechatError("no such merge", "not_found")
        found = _locked(found)
        if found.state == Merge.State.SUBMITTED and found.injection is not None:
            if not injections.cancel(found.injection):
                raise SidechatError("the note is already in the parent; retract it instead", "delivered")
        elif found.state != Merge.State.DRAFTING:
            raise SidechatError(f"this merge is already {found.public_state}", "delivered")
        found.state = Merge.State.CANCELLED
        found.save(update_fields=["state"])
        _ring(found)
    return found


def merges_of(session: Session) -> list[dict[str, Any]]:
    """The merges from or into `session`, oldest first, in the API's shape."""
    return [as_json(row) for row in _rows().filter(_of(session)).order_by("created_at", "id")]


def as_json(row: Merge) -> dict[str, Any]:
    """`{id, side, parent, state, sides?, seq?, error?}`; `sides` where the note is out of several, `side` the first."""
    sides = row.side_ids
    out: dict[str, Any] = {"id": row.pk, "side": sides[0], "parent": row.parent_id, "state": row.public_state}
    if len(sides) > 1:
        out["sides"] = sides
    if row.seq is not None:
        out["seq"] = row.seq
    if row.error:
        out["error"] = row.error
    return out


# --- what happens later ---


def turn_ended(side_id: str, turn: int) -> None:
    """Go on with the merges that waited for this side's handback."""
    for waiting in Merge.objects.filter(sources__side=side_id, state=Merge.State.DRAFTING):
        _go_on(waiting)


def recover() -> None:
    """Go on with merges that a crash left behind."""
    for waiting in Merge.objects.filter(state=Merge.State.DRAFTING):
        _go_on(waiting)


def session_deleted(session: Session) -> None:
    """A deleted side or parent has no merges on the way any more."""
    for row in _rows().filter(_of(session), state__in=LIVE):
        if row.state == Merge.State.SUBMITTED and row.injection is not None and not injections.cancel(row.injection):
            continue
        code = "parent_gone" if row.parent_id == session.pk else "side_gone"
        error = {"code": code, "message": "the session was deleted"}
        Merge.objects.filter(pk=row.pk).update(state=Merge.State.FAILED, error=error)
        _ring(row)


@transaction.atomic
def _go_on(waiting: Merge) -> None:
    """Submit the note once every side has its draft; fail where one has none, ask again where a crash took it."""
    through = dict(waiting.sources.values_list("side_id", "through_seq"))
    try:
        parent = log.lock(waiting.parent_id)
        locked = {side_id: log.lock(side_id) for side_id in sorted(through)}
    except Session.DoesNotExist:
        return
    row = _rows().get(pk=waiting.pk)
    if row.state != Merge.State.DRAFTING:
        return
    parts = [_Part.of(locked[side_id], through[side_id]) for side_id in through]
    try:
        if [part for part in parts if not _ready(part, parts)]:
            return
        whole = _compose(parts, None)
    except SidechatError as e:
        _fail(row, e)
    else:
        _submit(row, parent, parts, whole)
    _ring(row)


def _fail(row: Merge, why: SidechatError) -> None:
    row.state, row.error = Merge.State.FAILED, {"code": why.code, "message": why.message}
    if isinstance(why, RefusedBySide):
        row.error["side"] = why.side_id
    row.save(update_fields=["state", "error"])


def _ready(part: _Part, parts: Sequence[_Part]) -> bool:
    """Whether the side has its draft; False while it is being written. Raises SidechatError where it will have none."""
    if part.draft is not None:
        return True
    if drafting.is_writing(part.side, part.own):
        return False
    tried = turns.handbacks_at(part.own, part.through or 0)
    with _naming(part.side, parts):
        if part.through != turns.through_seq(part.own) or turns.is_answering(part.own):
            raise SidechatError("the side went on before its handback was written; merge again", "handback_stopped")
        if tried and (tried[-1].reason or {}).get("kind") != "interrupted":
            raise drafting.failure(tried[-1])
    drafting.ask(part.side, part.own, len(parts))
    return False


def _submit(row: Merge, parent: Session, parts: Sequence[_Part], whole: note.Note) -> None:
    """Hand the note to the parent: appended now, or when its turn ends."""
    draft = frame.message(frame.HANDBACK, whole.text, **_origin(parts), truncated=whole.truncated, edited=row.edited)
    row.truncated, row.state = whole.truncated, Merge.State.SUBMITTED
    row.injection = injections.inject(parent, draft, key=f"sidechat:{row.pk}", into_turn=row.into_turn)
    row.save(update_fields=["truncated", "state", "injection"])


def _origin(parts: Sequence[_Part]) -> dict[str, Any]:
    reach = [{"session": part.side.log_id, "throughSeq": part.through} for part in parts]
    return {"sessions": reach} if len(reach) > 1 else reach[0]


def _compose(parts: Sequence[_Part], written: str | None) -> note.Note:
    """The whole note out of the drafts (one that is not there yet counts as empty), or of what the user wrote."""
    cap = settings.SIDECHAT_HANDBACK_MAX_CHARS
    bodies = [part.draft.text if part.draft else "" for part in parts]
    if len(parts) == 1:
        return capped(parts[0].side, bodies[0] if written is None else written)
    if written is not None:
        return note.written_for_several([(part.side.title, part.side.log_id) for part in parts], written, cap)
    sides = [note.Part(p.side.title, p.side.log_id, body) for p, body in zip(parts, bodies, strict=True)]
    return note.compose_several(sides, cap)


def _own_forms(parts: Sequence[_Part]) -> tuple[str, ...]:
    """The texts that are the model's own draft: whole, and as it is shown for review."""
    if len(parts) > 1 or (draft := parts[0].draft) is None:
        return ()
    return draft.text, proposal(parts[0].side, draft).text


def _ask(parts: Sequence[_Part]) -> None:
    for part in parts:
        if part.draft is None and not drafting.is_writing(part.side, part.own):
            drafting.ask(part.side, part.own, len(parts))


def _hasten(found: Merge) -> Merge:
    """Let a merge that is not delivered yet enter the parent's running turn."""
    if not found.into_turn and found.seq is None:
        found.into_turn = True
        found.save(update_fields=["into_turn"])
        Injection.objects.filter(pk=found.injection_id, state=Injection.State.PENDING).update(into_turn=True)
        _ring(found)
    return found


def _lock(sides: Sequence[Session]) -> tuple[Session, list[_Part]]:
    """The parent and the sides, locked; the sides once each, in the order in which they were opened."""
    by_id = {side.pk: side for side in sides}
    if not by_id:
        raise SidechatError("name the sides that the note shall be out of", "no_sides")
    for side in by_id.values():
        with _naming(side, by_id):
            _check_parent(side)
    if len({side.parent_id for side in by_id.values()}) != 1:
        raise SidechatError("one note can only come out of sides of the same session", "other_parent")
    try:
        parent = log.lock(str(next(iter(by_id.values())).parent_id))
    except Session.DoesNotExist:
        raise _parent_gone() from None
    locked = [log.lock(pk) for pk in sorted(by_id)]
    return parent, [_Part.of(side) for side in sorted(locked, key=lambda side: (side.created_at, side.pk))]


def _check_parent(side: Session) -> None:
    drafting.check_side(side)
    if side.parent is None or side.parent.deleted_at is not None:
        raise _parent_gone()
    if side.parent.read_only:
        raise SidechatError("the parent's log belongs to another program; the note can be copied", "parent_read_only")


def _parent_gone() -> SidechatError:
    return SidechatError("the parent session was deleted; the note can still be copied", "parent_gone")


def _allowed(part: _Part, parts: Sequence[_Part], written: str | None) -> int:
    """The `throughSeq` of a merge that is allowed now. Raises `turn_open` or `nothing_new`."""
    with _naming(part.side, parts):
        through = drafting.check_settled(part.side, part.own)
        if written is None and through <= _merged_through(part.side):
            raise SidechatError("there is nothing new since the last merge", "nothing_new")
    return through


def _merged_through(side: Session) -> int:
    """How far the side's live notes reach; −1 where there is none."""
    found = Source.objects.filter(side=side, merge__state__in=LIVE)
    reached = found.exclude(merge__injection__state=Injection.State.CANCELLED)
    return max(reached.values_list("through_seq", flat=True), default=-1)


def _key(parts: Sequence[_Part], written: str | None) -> str:
    digest = "" if written is None else hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    reach = "\n".join(f"{part.side.pk}\n{part.through}" for part in parts)
    return hashlib.sha256(f"{reach}\n{digest}".encode()).hexdigest()


def _locked(row: Merge) -> Merge:
    """The row as it is now, its parent locked, so that nothing goes on with it meanwhile."""
    Session.objects.select_for_update(no_key=True).filter(pk=row.parent_id).first()
    return _rows().get(pk=row.pk)


def _of(session: Session) -> Q:
    return Q(parent=session) | Q(pk__in=Source.objects.filter(side=session).values("merge"))


def _rows() -> QuerySet[Merge]:
    return Merge.objects.select_related("parent", "injection").defer("injection__message").prefetch_related("sources")


def _ring(row: Merge) -> None:
    for session_id in (*row.side_ids, row.parent_id):
        commands.ring_after_commit(session_id, "merges")
