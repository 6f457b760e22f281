"""The only writer of events. An append is one transaction that moves the session's head by compare-and-set.

All functions are sync and must run in a database thread. After the commit, listeners hear that a log grew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from sidechat_web.core import codec, jsontext
from sidechat_web.core.errors import SidechatError
from sidechat_web.core.events import ASSISTANT_CHUNK, ASSISTANT_MESSAGE, SESSION_TITLE, Draft
from sidechat_web.core.events import Event as LogEvent
from sidechat_web.core.head import Head, advance

from . import passages
from .ids import now_ms
from .models import Event, Segment, Session

_CONTEXT_COUNTS = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")

Listener = Callable[[str, int, bool], None]  # session id, new length of the log, chunks only
_listeners: list[Listener] = []
Observer = Callable[[str, Sequence[LogEvent]], None]  # session id, events other than chunks
_observers: list[Observer] = []


class AppendConflict(SidechatError):
    """Another writer moved the head first; read again and decide anew."""

    code = "conflict"


class TurnGone(SidechatError):
    """The turn that this writer runs is no longer the open one."""

    code = "turn_gone"


@dataclass(frozen=True, slots=True)
class ChunkBatch:
    """Stream chunks of one session's open turn, in order: `bodies` are `(time, chunk data)`."""

    session_id: str
    turn: int
    bodies: Sequence[tuple[int, dict[str, object]]]


def on_append(listener: Listener) -> None:
    """Call `listener` after every committed append, in the committing thread."""
    _listeners.append(listener)


def on_events(observer: Observer) -> None:
    """Call `observer` with the events of every committed append of our own, in the committing thread."""
    _observers.append(observer)


def lock(session_id: str) -> Session:
    """The session row, locked until the transaction ends. Raises Session.DoesNotExist, also when deleted.

    Not a key lock: on PostgreSQL a second update of a child's row re-checks its foreign key at commit, which
    would wait for a key lock on the parent, held by who waits for the child.
    """
    return Session.objects.select_for_update(no_key=True).get(pk=session_id, deleted_at=None)


@transaction.atomic
def append(session_id: str, drafts: Sequence[Draft], *, turn: int | None = None) -> list[LogEvent]:
    """Append `drafts` in order and return them as events.

    `turn` fences a runner: raises TurnGone unless that turn is the open one. Raises AppendConflict
    when another writer won the seq.
    """
    session = lock(session_id)
    if turn is not None and session.open_turn != turn:
        raise TurnGone(f"turn {turn} of {session_id} is no longer open")
    return append_locked(session, drafts)


def append_locked(session: Session, drafts: Sequence[Draft]) -> list[LogEvent]:
    """Append to a session that the running transaction has locked; updates `session`'s head fields."""
    if not drafts:
        return []
    time = max(now_ms(), session.last_time)
    head, events, rows = session.head, [], []
    for draft in drafts:
        event = draft.at(head.next_seq, time)
        head = advance(head, event)
        events.append(event)
        rows.append(_row(session.pk, [event]))
    _move_head(session, head, events)
    Event.objects.bulk_create(rows)
    passages.add(session.pk, events)
    _announce(session.pk, head.next_seq, False)
    _show(session.pk, events)
    return events


@transaction.atomic
def append_chunks(batches: Iterable[ChunkBatch]) -> dict[str, int]:
    """Flush the chunk buffers of many sessions in one transaction, one row a batch.

    Returns the new length of each log. A batch whose turn is no longer open is dropped: its runner
    lost the turn and will hear so at its next append.
    """
    by_id = {b.session_id: b for b in batches if b.bodies}
    lengths: dict[str, int] = {}
    rows = []
    found = Session.objects.select_for_update(no_key=True).filter(pk__in=by_id, deleted_at=None).order_by("pk")
    for session in found.only("pk", "next_seq", "last_time", "open_turn"):
        batch = by_id[session.pk]
        if session.open_turn != batch.turn:
            continue
        events = _chunk_events(batch, session.next_seq, session.last_time)
        rows.append(_row(session.pk, events))
        lengths[session.pk] = length = events[-1].seq + 1
        _compare_and_set(session, next_seq=length, last_time=events[-1].time)
    Event.objects.bulk_create(rows)
    for session_id, length in lengths.items():
        _announce(session_id, length, True)
    return lengths


def import_rows(session: Session, rows: Sequence[Event], events: Sequence[LogEvent], head: Head) -> None:
    """Add verbatim rows of a foreign log and set the head; the transaction must hold the session's lock.

    `events` are those of the rows, without chunks.
    """
    Event.objects.bulk_create(rows, batch_size=2000)
    passages.add(session.pk, events)
    _compare_and_set(session, **_head_fields(head))
    _announce(session.pk, head.next_seq, False)


def many_imported() -> None:
    """Have the database look at the rows anew: it would plan for a session of thousands as for one without rows."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {Event._meta.db_table}")


def _chunk_events(batch: ChunkBatch, seq: int, last_time: int) -> list[LogEvent]:
    events = []
    for offset, (time, data) in enumerate(batch.bodies):
        last_time = max(time, last_time)
        events.append(LogEvent(seq + offset, last_time, ASSISTANT_CHUNK, data))
    return events


def _row(session_id: str, events: Sequence[LogEvent]) -> Event:
    first, last = events[0], events[-1]
    chunk = first.type == ASSISTANT_CHUNK
    lines = codec.join(codec.pack(events)) if chunk else codec.encode(first)
    return Event(
        session_id=session_id,
        seq=first.seq,
        last_seq=last.seq,
        type=first.type,
        chunk=chunk,
        time=first.time,
        lines=lines,
    )


def _move_head(session: Session, head: Head, events: Sequence[LogEvent]) -> None:
    fields = {**_head_fields(head), **_projection(session, events)}
    _compare_and_set(session, **fields)


def _compare_and_set(session: Session, **fields: object) -> None:
    moved = Session.objects.filter(pk=session.pk, next_seq=session.next_seq).update(**fields)
    if not moved:
        raise AppendConflict(f"another writer appended to {session.pk} first")
    for name, value in fields.items():
        setattr(session, name, value)


def _head_fields(head: Head) -> dict[str, object]:
    return {
        "next_seq": head.next_seq,
        "last_time": head.last_time,
        "open_turn": head.open_turn,
        "stable": head.stable,
        "last_turn": head.last_turn,
        "last_reason": head.last_reason,
    }


def _projection(session: Session, events: Sequence[LogEvent]) -> dict[str, object]:
    """Presentation fields that these events change: activity, title, own usage, context size."""
    fields: dict[str, object] = {"updated_at": events[-1].time}
    totals = {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "reasoning_tokens": 0}
    for event in events:
        if event.type == SESSION_TITLE:
            fields["title"] = event.data["title"]
        elif event.type == ASSISTANT_MESSAGE and (usage := event.data.get("usage")):
            totals["input_tokens"] += usage.get("inputTokens", 0)
            totals["output_tokens"] += usage.get("outputTokens", 0)
            totals["cache_read_tokens"] += usage.get("cacheReadTokens", 0)
            totals["reasoning_tokens"] += usage.get("reasoningTokens", 0)
            fields["context_used"] = context_tokens(usage)
    for name, added in totals.items():
        if added:
            fields[name] = getattr(session, name) + added
    return fields


def _announce(session_id: str, length: int, chunks_only: bool) -> None:
    transaction.on_commit(lambda: [listener(session_id, length, chunks_only) for listener in _listeners])


def _show(session_id: str, events: Sequence[LogEvent]) -> None:
    """Let the observers see what was appended; one that fails fails alone."""
    for observer in _observers:
        transaction.on_commit(partial(observer, session_id, events), robust=True)


def context_tokens(usage: Any) -> int:
    """How many tokens of context stand after a request with this usage; another program's may have any shape."""
    counts = [usage.get(k) for k in _CONTEXT_COUNTS] if isinstance(usage, dict) else []
    return sum(count for count in counts if isinstance(count, int) and count > 0)


def erase_unreferenced(session_ids: Iterable[str]) -> None:
    """Erase the rows of tombstoned sessions past the longest prefix that a living fork refers to."""
    for pk in session_ids:
        living = Segment.objects.filter(origin=pk, session__deleted_at=None)
        kept = living.aggregate(stop=Max("stop"))["stop"] or 0
        Event.objects.filter(session=pk, seq__gte=kept).delete()
        passages.erase(pk, seq_from=kept)


def normal_bytes(event: LogEvent) -> bytes:
    """What `Event.normal` holds for an upgraded foreign event."""
    return jsontext.dump_bytes(codec.envelope(event))
