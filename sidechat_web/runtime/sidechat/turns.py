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
    """One own turn. `end` is the seq of its `turn/end`, None while it is open."""

    number: int
    handback: bool = False
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
        elif not turns or turns[-1].end is not None:
            continue
        elif frame.form_of(event) == frame.HANDBACK_REQUEST:
            turns[-1].handback = True
        elif event.type == ev.ASSISTANT_MESSAGE:
            turns[-1].answer = ev.text_of(event.data["message"]).strip() or turns[-1].answer
        elif event.type == ev.TURN_END:
            turns[-1].end, turns[-1].reason = event.seq, event.data["reason"]
    return turns


def through_seq(turns: list[SideTurn]) -> int | None:
    """The seq of the last `turn/end` that is not a handback's; None before the first."""
    ends = [t.end for t in turns if t.end is not None and not t.handback]
    return ends[-1] if ends else None


def draft(turns: list[SideTurn]) -> Draft | None:
    """The handback that covers all there is; None where none was written, or the side has moved on since."""
    through = through_seq(turns)
    for turn in reversed(turns):
        if not turn.handback:
            if turn.end is not None:
                return None
        elif through is not None and turn.end is not None and succeeded(turn):
            return Draft(turn.answer, through)
    return None


def last_handback(turns: list[SideTurn]) -> SideTurn | None:
    """The handback turn after all other ended turns, whatever became of it."""
    last = turns[-1] if turns else None
    return last if last is not None and last.handback else None


def succeeded(turn: SideTurn) -> bool:
    return bool(turn.answer) and (turn.reason or {}).get("kind") in ("completed", "max-tokens")
