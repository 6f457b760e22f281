"""Every invariant of the record, checked against what is stored.

Events that another program wrote are held to the rules of the format; events that we wrote also to
ours: time never goes back, turns and steps nest, every call has exactly one result, and every request
is explained by the log before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import codec, rules, wire_openai
from sidechat_web.core import events as ev
from sidechat_web.core.errors import LogRefused, RecordError
from sidechat_web.core.events import Event as LogEvent
from sidechat_web.core.head import Head, advance
from sidechat_web.core.surface import Surface
from sidechat_web.storage import reading
from sidechat_web.storage.models import Event, Segment, Session

from . import storable
from .header import header_fault, header_of, parse_header
from .scan import parse_record
from .stored import header_line
from .turns import Turns

_BATCH: Final = 500
_HEAD_FIELDS: Final = ("next_seq", "open_turn", "stable", "last_turn", "last_reason")


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken invariant. `rule` is stable; `seq` is None where no single event is at fault."""

    session_id: str
    seq: int | None
    rule: str
    detail: str

    def __str__(self) -> str:
        seq = "-" if self.seq is None else self.seq
        return f"{self.session_id} {seq} {self.rule} {' '.join(self.detail.split())}"


def faults(session: Session) -> Iterator[Fault]:
    """Every fault of one session's effective log, in log order, then those of its head."""
    session = Session.objects.get(pk=session.pk)
    yield from _header(session)
    yield from _segments(session)
    check = _Check(session)
    for span in reading.spans(session):
        stop = min(span.stop, session.next_seq)
        rows = Event.objects.filter(session_id=span.origin, seq__gte=span.start, seq__lt=stop).order_by("seq")
        for row in rows.iterator(_BATCH):
            yield from check.row(row, stop)
    yield from check.end()


def _header(session: Session) -> Iterator[Fault]:
    try:
        record = parse_header(header_line(session))
    except LogRefused as refusal:
        yield Fault(session.pk, None, "header", refusal.reason)
        return
    if reason := header_fault(record):
        yield Fault(session.pk, None, "header", reason)
    elif storable.identifier(header_of(record).id) != session.log_id:
        yield Fault(session.pk, None, "header", "the header names another log")


def _segments(session: Session) -> Iterator[Fault]:
    """Segments cover `[0, base)` exactly."""
    at = 0
    for start, stop in Segment.objects.filter(session=session).order_by("start").values_list("start", "stop"):
        if start != at or stop <= start:
            yield Fault(session.pk, at, "segments", f"expected a segment from {at}, found {start}..{stop}")
        at = stop
    if at != session.base:
        yield Fault(session.pk, at, "segments", f"segments end at {at}, own events begin at {session.base}")


class _Check:
    """A fold over the rows of one effective log."""

    def __init__(self, session: Session) -> None:
        self._session = session
        foreign = session.foreign_length if session.header_line else 0  # what was told anew is ours
        self._native_from = max(session.base, foreign)
        self._head = Head()
        self._surface = Surface()
        self._turns = Turns()
        self._next_row = 0

    def row(self, row: Event, stop: int) -> Iterator[Fault]:
        """The faults of one row; of its events, those below `stop` belong to this log."""
        if row.seq != self._next_row:
            yield self._fault(row.seq, "seq", f"expected {self._next_row}")
        self._next_row = row.last_seq + 1
        try:
            events = _decoded(row)
        except ValueError as error:
            yield self._fault(row.seq, "encoding", str(error))
            return
        if [event.seq for event in events] != list(range(row.seq, row.last_seq + 1)):
            yield self._fault(row.seq, "seq", f"the row's lines do not hold exactly {row.seq}..{row.last_seq}")
        if row.chunk != all(event.type == ev.ASSISTANT_CHUNK for event in events) or row.time != events[0].time:
            yield self._fault(row.seq, "row", "the row's columns differ from its lines")
        for event in events:
            if event.seq < stop:
                yield from self._event(event)

    def end(self) -> Iterator[Fault]:
        session, head = self._session, self._head
        for name in _HEAD_FIELDS:
            stored, folded = getattr(session, name), getattr(head, name)
            if stored != (storable.json(folded) if name == "last_reason" else folded):
                yield self._fault(None, "head", f"{name} is {stored!r}, the log says {folded!r}")
        if session.last_time < head.last_time and not session.base:
            yield self._fault(None, "head", f"last_time is {session.last_time}, the log says {head.last_time}")
        yield from self._request()

    def _event(self, event: LogEvent) -> Iterator[Fault]:
        native = event.seq >= self._native_from
        if reason := rules.payload(event.type, event.data):
            yield self._fault(event.seq, "payload", reason)
            return
        if native:
            yield from self._native(event)
        try:
            self._surface.apply(event)
        except RecordError as error:
            yield self._fault(event.seq, "surface", error.message)
        self._turns.observe(event)
        self._head = advance(self._head, event)

    def _native(self, event: LogEvent) -> Iterator[Fault]:
        """The rules of events that were written here."""
        if event.seq > self._native_from and event.time < self._head.last_time:
            yield self._fault(event.seq, "time", f"{event.time} after {self._head.last_time}")
        if event.type not in rules.KNOWN_TYPES | {ev.CONTEXT_MESSAGE}:
            yield self._fault(event.seq, "type", f"{event.type} is not ours to write")
        for rule, reason in self._turns.faults(event, self._head):
            yield self._fault(event.seq, rule, reason)
        if event.type == ev.ASSISTANT_MESSAGE and self._surface.header is None:
            yield self._fault(event.seq, "request", "an answer without a request/header before it")

    def _request(self) -> Iterator[Fault]:
        """The next request can be built from the log, as far as one was ever made."""
        if self._surface.header is None:
            return
        try:
            wire_openai.encode(wire_openai.body(self._surface.header, self._surface.messages()))
        except wire_openai.WireError:
            return  # this wire form cannot say it; another may
        except (ValueError, KeyError, TypeError) as error:
            yield self._fault(self._session.next_seq, "request", f"cannot be rebuilt: {error!r}")

    def _fault(self, seq: int | None, rule: str, detail: str) -> Fault:
        return Fault(self._session.pk, seq, rule, detail)


def _decoded(row: Event) -> list[LogEvent]:
    """The row's events, every line well formed. Raises ValueError."""
    if row.normal is not None:
        return [_single(parse_record(bytes(row.normal)))]
    return [event for line in bytes(row.lines).split(b"\n") for event in _line(parse_record(line))]


def _line(record: dict[str, Any]) -> Iterable[LogEvent]:
    if not rules.one_of(record.get("type"), codec.PACKED):
        return [_single(record)]
    if reason := rules.packed_row(record):
        raise ValueError(reason)
    return codec.unpack(record)


def _single(record: dict[str, Any]) -> LogEvent:
    if reason := rules.envelope(record):
        raise ValueError(reason)
    return codec.from_envelope(record)
