"""Where a log may be forked: only where no turn is open."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import RecordError, TurnOpen
from .events import TURN_END, TURN_START, Event
from .head import Head


def default(head: Head) -> int:
    """The length of the stable prefix: everything before the open turn, or the whole log."""
    return head.stable


def at_message(head: Head, seq: int, next_turn_start: int | None) -> int:
    """The boundary at the message `seq`: a prefix length.

    `next_turn_start` is the seq of the `turn/start` that follows the message's turn, or None (see
    `following_turn`). A seq past the end means the end. Raises TurnOpen for a message of the open
    turn, which has no boundary yet, and RecordError for a negative seq.
    """
    if seq < 0:
        raise RecordError(f"no event {seq}: the first is 0", "bad_seq")
    if seq >= head.stable and head.is_open:
        raise TurnOpen(f"event {seq} belongs to turn {head.open_turn}, which is still running; fork when it has ended")
    return head.stable if next_turn_start is None else min(next_turn_start, head.stable)


def following_turn(last_mark: Event | None, marks: Iterable[Event]) -> int | None:
    """The seq of the first `turn/start` after the turn of an event, or None.

    `last_mark` is the last turn mark (`turn/start` or `turn/end`) at or before the event, `marks`
    those after it, in order. What stands between two turns belongs to the earlier one; what stands
    before the first turn, to the first.
    """
    ended = last_mark is not None and last_mark.type == TURN_END
    for mark in marks:
        if mark.type == TURN_END:
            ended = True
        elif mark.type == TURN_START and ended:
            return mark.seq
    return None
