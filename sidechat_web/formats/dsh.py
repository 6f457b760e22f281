"""DeepSeek Harness session logs, read as its own loader reads them.

`DshLog(stream)` reads the header; `lines()` then gives the lines of the log, streaming. What was given
out is provisional until the iteration has ended: a refusal may come with the last byte. Refusals are
ranked as the original ranks them, so that a log with several faults is refused for the same one: first
what cannot be scanned, then retired shapes, messages, unknown types, and only then details.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, BinaryIO, Final

from sidechat_web.core import codec, rules
from sidechat_web.core import events as ev
from sidechat_web.core.errors import LogCorrupt, LogRefused, LogUnreadable, LogUnsupported, RecordError
from sidechat_web.core.events import Event
from sidechat_web.core.surface import Nodes

from . import legacy
from .header import header_fault, header_of, parse_header
from .incoming import Line
from .plaintext import FrameEnd, Plaintext, whole_frames
from .scan import MAX_LINE_BYTES, Scan, Scanned, TornTail

_READ: Final = 1 << 16


class DshLog:
    """One log file. Its header is refused by the constructor, everything else by `lines()`; see LogRefused.

    `offset` is the byte from which `more` reads on: the end of the last good line, or of the last whole frame.
    """

    program = "dsh"
    patience = None
    grows = True

    def __init__(self, stream: BinaryIO, name: str | None = None) -> None:
        self.name = name
        self.torn: TornTail | None = None  # known once `lines()` has ended
        try:
            source = Plaintext(stream)
            self.header_line, self.offset, self._pieces = _header_line(source)
            record = parse_header(self.header_line)
        except LogRefused as refusal:
            raise _named(refusal, name, 1) from None
        self._compressed = source.compressed
        self._scan = Scan(len(self.header_line) + 1, source.compressed)
        self._judge = _Judge(record)
        self.header = header_of(record)

    @property
    def length(self) -> int:
        return self._scan.next_seq

    @property
    def lost(self) -> list[str]:
        return [] if self.torn is None else ["the unfinished end of the file"]

    def recall(self, known: dict[str, Any]) -> None:
        """The lines depend on nothing but the file."""

    def known(self) -> dict[str, Any]:
        return {}

    def lines(self) -> Iterator[Line]:
        """The lines in order; can be consumed once."""
        try:
            for piece in self._pieces:
                if isinstance(piece, FrameEnd):
                    self._scan.frame_ended(piece)
                else:
                    yield from self._taken(piece)
            self.torn = self._scan.finished()
            self._judge.settle()
        except LogRefused as refusal:
            raise _named(refusal, self.name, refusal.line) from None

    def more(self, stream: BinaryIO) -> Iterator[Line]:
        """Lines that are whole, of a compressed log only those in whole frames: a writer may be at work on the rest."""
        try:
            if self._compressed:
                for text, end in whole_frames(stream, self.offset):
                    yield from self._taken(text)
                    self._scan.check()
                    self.offset = end
            else:
                stream.seek(self.offset)
                while piece := stream.read(_READ):
                    yield from self._taken(piece)
                self.offset = self._scan.drop_tail()
            self._judge.settle()
        except LogRefused as refusal:
            raise _named(refusal, self.name, refusal.line) from None

    def settle(self) -> Iterator[Line]:
        """Nothing: such a log says itself where a turn ends."""
        return iter(())

    def _taken(self, piece: bytes) -> Iterator[Line]:
        return filter(None, map(self._judge.line, self._scan.take(piece)))


class _Phase(IntEnum):
    """The order in which the original looks for faults; one of an earlier phase hides all later ones."""

    RETIRED = 1
    MESSAGE = 2
    TYPE = 3
    CLOSERS = 4
    HEADER = 5
    EVENT = 6
    ACCEPTED = 7


class _Fault(Exception):
    def __init__(self, phase: _Phase, reason: str) -> None:
        super().__init__(reason)
        self.phase, self.reason = phase, reason


class _Judge:
    """Holds every record to the rules of the format and remembers the fault that counts."""

    def __init__(self, header: dict[str, Any]) -> None:
        self._session_id: str = header["id"]
        self._nodes = Nodes()
        self._result_ids: dict[int, str] = {}
        self._phase = _Phase.ACCEPTED
        self._refusal: LogRefused | None = None
        if reason := header_fault(header):
            self._note(_Fault(_Phase.HEADER, reason), 1)

    def settle(self) -> None:
        """Raise the refusal that counts, if there is one."""
        if self._refusal is not None:
            raise self._refusal

    def line(self, found: Scanned) -> Line | None:
        """The line in today's shape; None for it and for everything after it once there is a fault."""
        try:
            return self._line(found)
        except _Fault as fault:
            self._note(fault, found.number)
            return None

    def _line(self, found: Scanned) -> Line | None:
        record = found.record
        if rules.one_of(record.get("type"), codec.PACKED):
            time, latest, event = record["time0"], rules.latest_time(record), None
            today = record
        else:
            today = self._today(record)
            event = self._event(today)
            time = latest = today.get("time", 0)
        if self._refusal is not None:
            return None
        kept = None if event is None or event.type == ev.ASSISTANT_CHUNK else event
        return Line(found.number, found.text, found.first, found.last, time, latest, kept, today is not record)

    def _today(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record in today's shape, its message checked."""
        if reason := legacy.retired(record):
            raise _Fault(_Phase.RETIRED, reason)
        try:
            today = legacy.upgraded(record, self._session_id, self._result_ids)
        except RecordError as error:
            raise _Fault(_Phase.MESSAGE, error.message) from None
        kind = today.get("type")
        if rules.one_of(kind, ev.SURFACE_TYPES) and (reason := rules.message(kind, today.get("data"))):
            raise _Fault(_Phase.MESSAGE, reason)
        if kind == ev.TOOL_RESULT:
            self._result_ids[today["seq"]] = today["data"]["message"]["id"]
        return today

    def _event(self, today: dict[str, Any]) -> Event | None:
        """The event, its place on the surface checked; None where an earlier fault hides what is checked here."""
        if not rules.understood(today):
            raise _Fault(_Phase.TYPE, f"event type {today.get('type')!r} is unknown and not marked ignorable")
        if reason := _unrepairable(today):
            raise _Fault(_Phase.CLOSERS, reason)
        if self._refusal is not None:
            return None
        reason = rules.envelope(today)
        if reason is None and today["type"] == ev.REQUEST_HEADER:
            reason = rules.request_header(today["data"])
        if reason:
            raise _Fault(_Phase.EVENT, reason)
        event = codec.from_envelope(today)
        try:
            self._nodes.apply(event)
        except RecordError as error:
            raise _Fault(_Phase.EVENT, error.message) from None
        return event

    def _note(self, fault: _Fault, number: int) -> None:
        if fault.phase < self._phase:
            kind = LogUnsupported if fault.phase is _Phase.TYPE else LogCorrupt
            self._phase, self._refusal = fault.phase, kind(fault.reason, line=number)


def _unrepairable(record: dict[str, Any]) -> str | None:
    """What the crash repair, which scans every log, cannot read."""
    kind, data = record.get("type"), record.get("data")
    if kind in (ev.TURN_START, ev.STEP_START, ev.TOOL_CALL) and data is None:
        return f"{kind} has no data"
    if kind == ev.ASSISTANT_MESSAGE and None in data["message"]["content"]:  # type: ignore[index]
        return "message content holds null"
    return None


def _header_line(source: Plaintext) -> tuple[bytes, int, Iterator[bytes | FrameEnd]]:
    """The first line, the byte where what follows it begins, and the pieces from there.

    In a compressed log it has a frame of its own.
    """
    pieces = iter(source)
    held = bytearray()
    for piece in pieces:
        if isinstance(piece, FrameEnd):
            return _framed(bytes(held), piece), piece.end, pieces
        held += piece
        if not source.compressed and b"\n" in piece:
            line, rest = bytes(held).split(b"\n", 1)
            return line, len(line) + 1, itertools.chain([rest], pieces)
        if len(held) > MAX_LINE_BYTES:
            break
    raise LogUnreadable("empty, or the header line does not end")


def _framed(text: bytes, end: FrameEnd) -> bytes:
    if not end.complete:
        raise LogUnreadable("empty, or the header frame is not complete")
    if not text or text.find(b"\n") != len(text) - 1:
        raise LogUnreadable("the first frame is not exactly one header line")
    return text[:-1]


def _named(refusal: LogRefused, name: str | None, line: int | None) -> LogRefused:
    return type(refusal)(refusal.reason, line=line, file=name)
