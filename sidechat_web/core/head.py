"""The head of a log: what the writer must know of everything before, in constant size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .events import TURN_END, TURN_START, Event


@dataclass(frozen=True, slots=True)
class Head:
    """`next_seq` is the length of the log; `stable` the length of its stable prefix.

    `open_turn` is the number of the turn that has started and not ended, or None; `last_turn` the
    number of the last `turn/start` (0 before the first), `last_reason` the last `turn/end`'s reason.
    """

    next_seq: int = 0
    last_time: int = 0
    open_turn: int | None = None
    stable: int = 0
    last_turn: int = 0
    last_reason: dict[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        return self.open_turn is not None


def advance(head: Head, event: Event) -> Head:
    """The head after `event`. A turn that starts inside an open one leaves the stable prefix where it was."""
    next_seq = event.seq + 1
    time = max(head.last_time, event.time)
    stable = head.stable if head.is_open else next_seq
    if event.type == TURN_START:
        turn = head.last_turn + 1 if event.turn is None else event.turn
        stable = head.stable if head.is_open else event.seq
        return replace(head, next_seq=next_seq, last_time=time, open_turn=turn, stable=stable, last_turn=turn)
    if event.type == TURN_END:
        reason = _reason(event)
        return replace(head, next_seq=next_seq, last_time=time, open_turn=None, stable=next_seq, last_reason=reason)
    return replace(head, next_seq=next_seq, last_time=time, stable=stable)


def advance_chunks(head: Head, last_seq: int, last_time: int) -> Head:
    """The head after a run of chunk events that ends at `last_seq`; `last_time` is their latest time."""
    next_seq = last_seq + 1
    time = max(head.last_time, last_time)
    return replace(head, next_seq=next_seq, last_time=time, stable=head.stable if head.is_open else next_seq)


def _reason(event: Event) -> dict[str, Any] | None:
    reason = event.data.get("reason") if isinstance(event.data, dict) else None
    return reason if isinstance(reason, dict) else None
