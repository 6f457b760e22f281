"""The doorbell: says that something durable changed, and carries streaming text best effort.

A bell names a session and a topic, never content. Viewers read the log from their cursor to the
head. A lost bell or delta costs latency, never text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Topic = Literal["log", "chunks", "queue", "merges", "row", "gone"]
Kind = Literal["text", "reasoning", "tool-args"]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streaming block. `offset` is how many code points of the block stand before it."""

    turn: int
    step: int
    index: int
    kind: Kind
    offset: int
    text: str


class Listener(Protocol):
    """Called in whichever thread rings; must return at once."""

    def rang(self, session_id: str, topic: Topic) -> None: ...

    def streamed(self, session_id: str, delta: Delta) -> None: ...


_lock = threading.Lock()
_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Hear every bell and delta of this process; returns how to stop."""
    with _lock:
        _listeners.append(listener)

    def stop() -> None:
        with _lock:
            _listeners.remove(listener)

    return stop


def ring(session_id: str, topic: Topic) -> None:
    """Say that `session_id` changed. Call after the commit; safe from any thread."""
    for listener in tuple(_listeners):
        listener.rang(session_id, topic)


def delta(session_id: str, piece: Delta) -> None:
    """Pass on streaming text, best effort; call from the event loop's thread."""
    for listener in tuple(_listeners):
        listener.streamed(session_id, piece)
