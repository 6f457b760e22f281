"""Folded surfaces of this process, by session: a log is append-only, so what was folded once stays true.

Bounded by the size of the lines that the surfaces were folded from; the least recently used goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from sidechat_web.core.events import Event
from sidechat_web.core.surface import Surface

MAX_BYTES: Final = 1 << 25
MAX_KEPT: Final = 256

_lock = threading.Lock()
_kept: OrderedDict[str, Folded] = OrderedDict()


class Folded:
    """The surface of a log's first `length` events, and the size of the lines that put events on it."""

    def __init__(self) -> None:
        self.surface = Surface()
        self.length = 0
        self.size = 0

    def take(self, events: Sequence[Event], size: int) -> None:
        """Fold the events of one row in, whose lines have `size` bytes."""
        for event in events:
            self.surface.apply(event)
            self.length = event.seq + 1
        if events[-1].on_surface:
            self.size += size

    def copy(self) -> Folded:
        other = Folded()
        other.surface, other.length, other.size = self.surface.copy(), self.length, self.size
        return other


def find(session_id: str) -> Folded | None:
    """A copy of what is kept of a session; it may be shorter than the log is now."""
    with _lock:
        found = _kept.get(session_id)
        if found is not None:
            _kept.move_to_end(session_id)
    return None if found is None else found.copy()


def keep(session_id: str, folded: Folded) -> None:
    """Keep a copy of `folded`, whose events must be committed."""
    if folded.size > MAX_BYTES:
        return
    copy = folded.copy()
    with _lock:
        _kept[session_id] = copy
        _kept.move_to_end(session_id)
        while len(_kept) > MAX_KEPT or sum(one.size for one in _kept.values()) > MAX_BYTES:
            _kept.popitem(last=False)


def forget() -> None:
    """Keep nothing."""
    with _lock:
        _kept.clear()
