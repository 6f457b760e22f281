"""The turns that a note cites (`turn 7`, `turns 3–5`), found in the sides that it is out of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from . import frame, note
from .delivered import reach_of

_CITED: Final = re.compile(r"\bturns?\s+#?(\d+(?:(?:\s*[,–-]\s*|\s*,?\s+(?:and|to|or)\s+)(?:turns?\s+)?#?\d+)*)", re.I)
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Citation:
    """`turn` of the side `session` (a log id), whose question stands at `seq` of the side's log.

    Its number stands at `[start, end)` of the note's text, in code points.
    """

    session: str
    turn: int
    seq: int
    start: int
    end: int


def references(note_event: Event, side: Session) -> list[tuple[int, int]]:
    """The turns of `side` that a note cites, as `(turn, seq)` in the order of the note, each once."""
    found = citations([note_event], [side]).get(note_event.seq, [])
    return list(dict.fromkeys((one.turn, one.seq) for one in found))


def citations(notes: Iterable[Event], sides: Iterable[Session]) -> dict[int, list[Citation]]:
    """What the `notes` of a parent cite in those of their `sides` that are given, by the note's seq. Few queries."""
    asked = _questions(sides)
    found = {event.seq: list(_of_note(event, asked)) for event in notes if frame.form_of(event) == frame.HANDBACK}
    return {seq: cited for seq, cited in found.items() if cited}


def _of_note(event: Event, asked: Mapping[str, Mapping[int, int]]) -> Iterator[Citation]:
    """A number counts where exactly one of the sides that it can mean has such a turn."""
    text, origins = ev.text_of(event.data), list(reach_of(event))
    parts = note.sections(text) if len(origins) > 1 else []
    body = text.find("\n") + 1
    spans = [(span, [origins[k]]) for k, span in enumerate(parts[: len(origins)])] or [((body, len(text)), origins)]
    for (low, high), candidates in spans:
        for start, end in _numbers(text, low, high):
            turn = int(text[start:end])
            having = [log_id for log_id in candidates if turn in asked.get(log_id, {})]
            if len(having) == 1:
                yield Citation(having[0], turn, asked[having[0]][turn], start, end)


def _numbers(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    for cited in _CITED.finditer(text, low, high):
        for number in _NUMBER.finditer(text, cited.start(1), cited.end(1)):
            if number.end() - number.start() <= 9:
                yield number.span()


def _questions(sides: Iterable[Session]) -> dict[str, dict[int, int]]:
    """By log id: the seq of the first user message of each own turn, by the turn's number."""
    by_id = {side.pk: side for side in sides}
    found: dict[str, dict[int, int]] = {side.log_id: {} for side in by_id.values()}
    turn: dict[str, int | None] = {}
    for session_id, event in reading.own_events(by_id.values(), types=[ev.TURN_START, ev.USER_MESSAGE]):
        if event.type == ev.TURN_START:
            turn[session_id] = event.turn
        elif (number := turn.get(session_id)) is not None:
            found[by_id[session_id].log_id].setdefault(number, event.seq)
    return found
