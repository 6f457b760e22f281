"""Lines of a foreign log to rows of a session, a batch at a time, with the head and what a list shows of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event as LogEvent
from sidechat_web.core.head import Head, advance, advance_chunks
from sidechat_web.core.surface import canonical_header
from sidechat_web.storage import log as log_writer
from sidechat_web.storage.models import Event, Session

from . import storable
from .incoming import Line

_BATCH_ROWS: Final = 1000
_BATCH_BYTES: Final = 1 << 22
_MANY_ROWS: Final = 5000
_CHUNK_EVENTS: Final = 256
_CHUNK_BYTES: Final = 1 << 16
_USAGE: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "reasoning_tokens": "reasoningTokens",
}
_TITLE_CHARACTERS: Final = 80


class RowWriter:
    """Appends lines to a session whose row the transaction has locked or just made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._head = session.head
        self._rows: list[Event] = []
        self._events: list[LogEvent] = []  # of the rows, without chunks
        self._row_bytes = 0
        self._written = 0
        self._chunks: list[Line] = []
        self._chunk_bytes = 0

    def write(self, lines: Iterable[Line]) -> None:
        """Write all lines in order, then the session's presentation fields."""
        before = self._head.next_seq
        for line in lines:
            self._add(line)
        self._end_chunks()
        self._flush()
        if self._head.next_seq > before:
            self._session.foreign_length = self._head.next_seq
            self._session.updated_at = max(self._head.last_time, self._session.created_at)
            self._session.save()
        if self._written >= _MANY_ROWS:
            log_writer.many_imported()

    def _add(self, line: Line) -> None:
        if line.event is None:
            self._add_chunks(line)
        else:
            self._end_chunks()
            self._head = _advanced(self._head, line.event)
            self._present(line.event)
            self._events.append(line.event)
            self._add_row(self._row([line], _kind(line.event)))

    def _add_chunks(self, line: Line) -> None:
        self._head = advance_chunks(self._head, line.last, line.latest)
        self._chunks.append(line)
        self._chunk_bytes += len(line.text)
        if line.last - self._chunks[0].first >= _CHUNK_EVENTS or self._chunk_bytes >= _CHUNK_BYTES:
            self._end_chunks()

    def _end_chunks(self) -> None:
        if self._chunks:
            self._add_row(self._row(self._chunks, ev.ASSISTANT_CHUNK))
            self._chunks, self._chunk_bytes = [], 0

    def _row(self, lines: list[Line], kind: str) -> Event:
        first = lines[0]
        return Event(
            session_id=self._session.pk,
            seq=first.first,
            last_seq=lines[-1].last,
            type=kind,
            chunk=first.event is None,
            time=first.time,
            lines=b"\n".join(line.text for line in lines),
            normal=log_writer.normal_bytes(first.event) if first.event and first.upgraded else None,
        )

    def _add_row(self, row: Event) -> None:
        self._rows.append(row)
        self._row_bytes += len(row.lines)
        if len(self._rows) >= _BATCH_ROWS or self._row_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            log_writer.import_rows(self._session, self._rows, self._events, self._head)
            self._written += len(self._rows)
            self._rows, self._events, self._row_bytes = [], [], 0

    def _present(self, event: LogEvent) -> None:
        """Take from one event what lists and meters show. Foreign data may have any shape."""
        session, data = self._session, event.data if isinstance(event.data, dict) else {}
        own = event.seq >= session.own_from
        if event.type == ev.REQUEST_HEADER:
            session.settings = {**session.settings, "header": storable.json(canonical_header(data["header"]))}
        elif event.type == ev.ASSISTANT_MESSAGE and isinstance(data.get("usage"), dict):
            self._count(data["usage"], own)
        elif event.type == ev.SESSION_TITLE and own:
            session.title = storable.text(data.get("title")) or session.title
        elif event.type == ev.USER_MESSAGE and own and not session.title and data["source"]["kind"] == "user":
            session.title = _title(ev.text_of(data))

    def _count(self, usage: dict[str, Any], own: bool) -> None:
        counts = {key: storable.count(usage.get(key)) for key in (*_USAGE.values(), "cacheWriteTokens")}
        self._session.context_used = storable.total(log_writer.context_tokens(counts))
        if own:
            for field, key in _USAGE.items():
                setattr(self._session, field, storable.total(getattr(self._session, field) + counts[key]))


def _kind(event: LogEvent) -> str:
    """The type under which queries find an event; a context message of ours that left as a user's is one again."""
    source = event.data.get("source") if event.type == ev.USER_MESSAGE else None
    if isinstance(source, dict) and source.get("plugin") == ev.OWN_PLUGIN:
        return ev.CONTEXT_MESSAGE
    return storable.text(event.type)[:64]


def _advanced(head: Head, event: LogEvent) -> Head:
    after = advance(head, event)
    return replace(after, last_reason=storable.json(after.last_reason)) if event.type == ev.TURN_END else after


def _title(text: str) -> str:
    """The first words of the first message, for a session that nobody named."""
    words = " ".join(storable.text(text[:1000]).split())
    return words if len(words) <= _TITLE_CHARACTERS else words[: _TITLE_CHARACTERS - 1].rstrip() + "…"
