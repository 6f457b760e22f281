"""Where a log may be forked: only where no turn is open."""

from __future__ import annotations

from .errors import RecordError, TurnOpen
from .head import Head


def default(head: Head) -> int:
    """The length of the stable prefix: everything before the open turn, or the whole log."""
    return head.stable


def at_message(head: Head, seq: int, next_turn_start: int | None) -> int:
    """The boundary at the message `seq`: a prefix length.

    `next_turn_start` is the seq of the first `turn/start` after `seq`, or None. What stands between
    two turns belongs to the earlier one. Raises TurnOpen for a message of the open turn, which has
    no boundary yet, and RecordError for a seq outside the log.
    """
    if not 0 <= seq < head.next_seq:
        raise RecordError(f"no event {seq}: the log has {head.next_seq} events", "bad_seq")
    if seq >= head.stable:
        raise TurnOpen(f"event {seq} belongs to turn {head.open_turn}, which is still running; fork when it has ended")
    return head.stable if next_turn_start is None else min(next_turn_start, head.stable)
