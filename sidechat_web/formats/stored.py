"""A stored log line by line, as it was written and as it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from sidechat_web.core import codec, jsontext
from sidechat_web.core.events import CONTEXT_MESSAGE, USER_MESSAGE
from sidechat_web.core.events import Event as LogEvent
from sidechat_web.storage import reading
from sidechat_web.storage.models import Event, Session

from .header import Header

_BATCH: Final = 500
_FIELDS: Final = ("seq", "last_seq", "type", "chunk", "lines", "normal")


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One line of a session's effective log, under the type by which queries find it.

    `normal` is today's envelope where the line has an older shape.
    """

    type: str
    text: bytes
    normal: bytes | None = None

    def exported(self) -> bytes:
        """The line as the original program accepts it: old shapes upgraded, injected context a user message."""
        today = self.text if self.normal is None else self.normal
        if self.type != CONTEXT_MESSAGE:
            return today
        event = codec.from_envelope(jsontext.loads(today))
        return codec.encode(replace(event, type=USER_MESSAGE)) if event.type == CONTEXT_MESSAGE else today


def header_of(session: Session) -> Header:
    """The header of a session that was made here."""
    return Header(
        session.log_id,
        max(session.created_at, 0),
        session.cwd,
        session.parent_log_id,
        session.seed_length,
        session.origin,
        session.delegation_depth,
    )


def header_line(session: Session) -> bytes:
    """The header line: verbatim for an imported log, else built from the session."""
    return bytes(session.header_line) or header_of(session).line()


def untouched(session: Session) -> bool:
    """Whether the log is exactly as it was imported, so that it leaves as it came."""
    return session.imported and session.foreign_length == session.next_seq


def stored_lines(session: Session) -> Iterator[StoredLine]:
    """The lines of the effective log, up to the head that `session` was read with."""
    for span in reading.spans(session):
        stop = min(span.stop, session.next_seq)
        rows = Event.objects.filter(session_id=span.origin, seq__gte=span.start, seq__lt=stop).only(*_FIELDS)
        for row in rows.order_by("seq").iterator(_BATCH):
            yield from _lines(row, stop)


def _lines(row: Event, stop: int) -> Iterator[StoredLine]:
    text = bytes(row.lines)
    if not row.chunk:
        yield StoredLine(row.type, text, None if row.normal is None else bytes(row.normal))
        return
    lines = text.split(b"\n")
    if row.last_seq >= stop:
        lines = list(codec.pack([event for event in _events(lines) if event.seq < stop]))
    for line in lines:
        yield StoredLine(row.type, line)


def _events(lines: list[bytes]) -> list[LogEvent]:
    return [event for line in lines for event in codec.decode(line)]
