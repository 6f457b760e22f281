"""The index of what was said: written in the transaction that appends, erased with the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sidechat_web.core import words
from sidechat_web.core.events import Event as LogEvent

from .models import Passage

_LONGEST: Final = 60_000  # characters of one row: PostgreSQL keeps at most 1 MB of different words together


def add(session_id: str, events: Iterable[LogEvent]) -> None:
    """Index what these events say."""
    rows = [Passage(session_id=session_id, seq=e.seq, words=part) for e in events for part in _parts(words.said(e))]
    if rows:
        Passage.objects.bulk_create(rows, batch_size=1000)


def erase(session_id: str, *, seq_from: int) -> None:
    Passage.objects.filter(session=session_id, seq__gte=seq_from).delete()


def _parts(text: str) -> Iterator[str]:
    part: list[str] = []
    length = 0
    for word in words.words(text):
        part.append(word)
        length += len(word) + 1
        if length > _LONGEST:
            yield " ".join(part)
            part, length = [], 0
    if part:
        yield " ".join(part)
