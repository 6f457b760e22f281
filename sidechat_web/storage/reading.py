"""The effective log: a session's inherited prefix and its own events, read as one contiguous log.

Reads go to the head that the database has now, not to the one that a `Session` row was read with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection
from django.db.models import Max, Q, QuerySet

from sidechat_web.core import boundary, codec, jsontext, repair
from sidechat_web.core.events import TURN_END, TURN_START
from sidechat_web.core.events import Event as LogEvent
from sidechat_web.core.surface import Surface

from . import surfaces
from .models import Event, Segment, Session
from .surfaces import Folded

_BATCH: Final = 500
_NO_END: Final = 2**62


@dataclass(frozen=True, slots=True)
class Span:
    """Events `[start, stop)` of an effective log stand in the rows of session `origin`."""

    origin: str
    start: int
    stop: int


def spans(session: Session) -> list[Span]:
    """Where each part of the effective log stands, in order, without gaps; the last one has no end."""
    out: list[Span] = []
    if session.base:
        rows = Segment.objects.filter(session=session).order_by("start").values_list("origin_id", "start", "stop")
        out = [Span(*row) for row in rows]
    return [*out, Span(session.pk, session.base, _NO_END)]


def events(
    session: Session, *, after: int = -1, stop: int | None = None, chunks: bool = False, types: Sequence[str] = ()
) -> Iterator[LogEvent]:
    """The events with `after < seq < stop`, in order; chunk events only with `chunks`."""
    for span in spans(session):
        low, high = max(after + 1, span.start), min(_NO_END if stop is None else stop, span.stop)
        if low < high:
            yield from _span_events(span.origin, low, high, chunks, types)


def tail(session: Session, limit: int, *, before: int | None = None, types: Sequence[str] = ()) -> list[LogEvent]:
    """The last `limit` non-chunk events with `seq < before` (default: the head), in log order."""
    before = _NO_END if before is None else before
    out: list[LogEvent] = []
    for span in reversed(spans(session)):
        high = min(before, span.stop)
        if high <= span.start or len(out) >= limit:
            continue
        rows = _rows(span.origin, types).filter(chunk=False, seq__gte=span.start, seq__lt=high)
        for row in rows.order_by("-seq")[: limit - len(out)]:
            out += _decode(row)
    out.reverse()
    return out


def own_events(sessions: Iterable[Session], *, types: Sequence[str]) -> Iterator[tuple[str, LogEvent]]:
    """The own events of many sessions as `(session id, event)`, each session's in order; no chunks, one query."""
    first = {session.pk: session.own_from for session in sessions}
    rows = Event.objects.filter(session__in=first, chunk=False, type__in=types).order_by("session", "seq")
    for row in rows.only("session_id", "seq", "last_seq", "lines", "normal", "chunk").iterator(_BATCH):
        if row.seq >= first[row.session_id]:
            yield from ((row.session_id, found) for found in _decode(row))


def count(session: Session, *, after: int = -1, stop: int | None = None, types: Sequence[str]) -> int:
    """How many events of these types (no chunks) stand at `after < seq < stop`."""
    total = 0
    for span in spans(session):
        low, high = max(after + 1, span.start), min(_NO_END if stop is None else stop, span.stop)
        if low < high:
            rows = Event.objects.filter(session_id=span.origin, chunk=False, type__in=types)
            total += rows.filter(seq__gte=low, seq__lt=high).count()
    return total


def event(session: Session, seq: int) -> LogEvent | None:
    """The one event at `seq`, chunk or not; None outside the log."""
    return next(events(session, after=seq - 1, stop=seq + 1, chunks=True), None)


def surface(session: Session, *, stop: int | None = None) -> Surface:
    """The folded surface of the prefix `[0, stop)`, by default of the whole log; the caller's own.

    What this process folded of the log before is not read again.
    """
    if stop is not None:
        return Surface.of(events(session, stop=stop))
    folded = surfaces.find(session.pk) or Folded()
    known = folded.length
    for row in _rows_after(session, known - 1):
        folded.take(_decode(row), len(row.lines))
    if folded.length > known and not connection.in_atomic_block:  # else what was read may yet be undone
        surfaces.keep(session.pk, folded)
    return folded.surface


def closers(session: Session) -> list[LogEvent]:
    """What closes the turn that another program left open; nothing where it may still run, or was opened here.

    These events are no part of the log until something is said in this very session.
    """
    if not session.left_open:
        return []
    drafts = repair.closers(events(session, after=session.stable - 1))
    last = event(session, session.next_seq - 1)
    assert last is not None
    return [draft.at(session.next_seq + n, last.time) for n, draft in enumerate(drafts)]


def repaired(session: Session) -> Surface:
    """The surface as a model would see it now, an unfinished turn of another program closed in memory."""
    found = surface(session)
    for closer in closers(session):
        found.apply(closer)
    return found


def next_turn_start(session: Session, seq: int) -> int | None:
    """The seq of the `turn/start` that follows the turn of the event at `seq`, or None."""
    marks = [TURN_START, TURN_END]
    last = tail(session, 1, before=seq + 1, types=marks)
    return boundary.following_turn(last[0] if last else None, events(session, after=seq, types=marks))


def lines(session: Session, *, after: int = -1) -> Iterator[bytes]:
    """The log's lines verbatim, from the first row that starts after `after`, header excluded."""
    for span in spans(session):
        rows = _rows(span.origin).filter(seq__gte=max(span.start, after + 1), seq__lt=span.stop).order_by("seq")
        for row in rows.iterator(_BATCH):
            if row.last_seq < span.stop:
                yield from bytes(row.lines).split(b"\n")
            else:
                yield from codec.pack([e for e in _decode(row) if e.seq < span.stop])


def _rows_after(session: Session, after: int) -> Iterator[Event]:
    """The rows without chunks that stand after `after`."""
    for span in spans(session):
        rows = _rows(span.origin).filter(chunk=False, seq__gte=max(after + 1, span.start), seq__lt=span.stop)
        if after + 1 < span.stop:
            yield from rows.order_by("seq").iterator(_BATCH)


def _span_events(origin: str, low: int, high: int, chunks: bool, types: Sequence[str]) -> Iterator[LogEvent]:
    rows = _rows(origin, types).filter(seq__lt=high)
    if chunks:
        first = Event.objects.filter(session_id=origin, seq__lte=low).aggregate(at=Max("seq"))["at"]
        rows = rows.filter(seq__gte=low if first is None else first)
    else:
        rows = rows.filter(chunk=False, seq__gte=low)
    for row in rows.order_by("seq").iterator(_BATCH):
        for found in _decode(row):
            if low <= found.seq < high:
                yield found


def _rows(origin: str, types: Sequence[str] = ()) -> QuerySet[Event]:
    rows = Event.objects.filter(session_id=origin).only("seq", "last_seq", "lines", "normal", "chunk")
    return rows.filter(Q(type__in=types)) if types else rows


def _decode(row: Event) -> list[LogEvent]:
    if row.normal is not None:
        return [codec.from_envelope(jsontext.loads(bytes(row.normal)))]
    if not row.chunk:
        return codec.decode(bytes(row.lines))
    return [found for line in bytes(row.lines).split(b"\n") for found in codec.decode(line)]
