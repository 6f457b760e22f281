"""A side's own turns, read off its log: what can be merged, and the draft that already exists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from . import frame


@dataclass(slots=True)
class SideTurn:
    """One own turn. `asked` is the seq of the user's first message in it, `end` of its `turn/end` (None: open)."""

    number: int
    handback: bool = False
    question: str = ""
    asked: int | None = None
    answer: str = ""
    end: int | None = None
    reason: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """The model's handback for everything up to `through_seq`."""

    text: str
    through_seq: int


def own(session: Session) -> list[SideTurn]:
    return fold(reading.events(session, after=session.own_from - 1))


def fold(events: Iterable[Event]) -> list[SideTurn]:
    turns: list[SideTurn] = []
    for event in events:
        if event.type == ev.TURN_START:
            turns.append(SideTurn(event.data["turn"]))
        elif turns and turns[-1].end is None:
            _observe(turns[-1], event)
    return turns


def _observe(turn: SideTurn, event: Event) -> None:
    if frame.form_of(event) == frame.HANDBACK_REQUEST:
        turn.handback = True
    elif event.type == ev.USER_MESSAGE and turn.asked is None:
        turn.asked, turn.question = event.seq, ev.text_of(event.data)
    elif event.type == ev.ASSISTANT_MESSAGE:
        turn.answer = ev.text_of(event.data["message"]).strip() or turn.answer
    elif event.type == ev.TURN_END:
        turn.end, turn.reason = event.seq, event.data["reason"]


def through_seq(turns: list[SideTurn]) -> int | None:
    """The seq of the last `turn/end` that is not a handback's; None before the first."""
    ends = [t.end for t in turns if t.end is not None and not t.handback]
    return ends[-1] if ends else None


def is_answering(turns: list[SideTurn]) -> bool:
    """Whether a turn is open that is not a handback's."""
    return bool(turns) and turns[-1].end is None and not turns[-1].handback


def draft(turns: list[SideTurn]) -> Draft | None:
    """The handback that covers every ended turn; None where none was written."""
    through = through_seq(turns)
    return None if through is None else draft_at(turns, through)


def draft_at(turns: list[SideTurn], through: int) -> Draft | None:
    """The handback that was written for everything up to `through`, also where the side has moved on since."""
    written = [turn for turn in handbacks_at(turns, through) if turn.end is not None and succeeded(turn)]
    return Draft(written[-1].answer, through) if written else None


def handbacks_at(turns: list[SideTurn], through: int) -> list[SideTurn]:
    """The handback turns between the turn that ended at `through` and the next that is none."""
    found: list[SideTurn] = []
    passed = False
    for turn in turns:
        if turn.end == through:
            passed = True
        elif passed and not turn.handback:
            break
        elif passed:
            found.append(turn)
    return found


def succeeded(turn: SideTurn) -> bool:
    return bool(turn.answer) and (turn.reason or {}).get("kind") in ("completed", "max-tokens")
