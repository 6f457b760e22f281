"""Which part of a log a page shows, folded to a transcript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import Q

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event, Replace
from sidechat_web.render import links
from sidechat_web.render.items import Link
from sidechat_web.render.transcript import SessionInfo, Transcript, cited, named
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

WINDOW_EVENTS: Final = 120  # about eighteen turns of talk


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive events that start between turns. `start` is the first seq; more stands before it if `more`."""

    events: list[Event]
    start: int
    more: bool


def window(session: Session, *, before: int | None = None, floor: int = 0, size: int = WINDOW_EVENTS) -> Window:
    """The whole turns at the end of `[floor, before)`: about `size` events, at least one turn."""
    while True:
        found = [e for e in reading.tail(session, size + 1, before=before) if e.seq >= floor]
        if len(found) <= size:
            return Window(found, floor, False)
        starts = [i for i, event in enumerate(found) if event.type == ev.TURN_START]
        if starts:
            kept = found[starts[0] :]
            return Window(kept, kept[0].seq, True)
        size *= 4


def transcript(session: Session, shown: Window) -> Transcript:
    """The window folded."""
    return Transcript(info(session, shown.events)).apply_all(shown.events)


def info(session: Session, events: list[Event]) -> SessionInfo:
    """What a transcript of `events` must know beside them."""
    names = named(events)
    return SessionInfo(
        id=session.pk,
        parent=_parent_link(session),
        seed_length=session.own_from,
        read_only=session.read_only,
        titles=titles(session, names) if names else {},
        sides=forks(session),
        off_surface=_left_surface(session, events[-1].seq) if cited(events) else {},
    )


def children(session: Session) -> list[Session]:
    """The session's living sides, oldest first."""
    rows = Session.objects.filter(parent=session, deleted_at=None, kind=Session.Kind.SIDE)
    return list(rows.select_related("parent").order_by("created_at", "id"))


def forks(session: Session) -> dict[int, list[Link]]:
    """The session's sides by the boundary at which they left."""
    found: dict[int, list[Link]] = {}
    for side in children(session):
        found.setdefault(side.own_from, []).append(links.link(side))
    return found


def titles(session: Session, log_ids: Iterable[str]) -> dict[str, Link]:
    """Links to the owner's sessions and the session's sides with these log ids, deleted ones without an address."""
    known = Q(owner_id=session.owner_id) | Q(parent=session, kind=Session.Kind.SIDE)
    rows = Session.objects.filter(known, log_id__in=set(log_ids)).select_related("parent")
    living_last = sorted(rows, key=lambda row: row.deleted_at is None)
    return {row.log_id: links.link(row) for row in living_last}


def _parent_link(session: Session) -> Link | None:
    if session.kind == Session.Kind.SIDE or session.parent is None or session.parent.owner_id != session.owner_id:
        return None
    return links.link(session.parent)


def _left_surface(session: Session, after: int) -> dict[int, str]:
    """What events after `after` took from the model's view."""
    left: dict[int, str] = {}
    for event in reading.events(session, after=after, types=[ev.CONTEXT_MESSAGE, ev.USER_MESSAGE]):
        if isinstance(event.surface_op, Replace):
            retracted = (event.data.get("source") or {}).get("form") == "retraction"
            for seq in event.source_event_seqs or ():
                left[seq] = "retracted" if retracted else "summarised"
    return left
