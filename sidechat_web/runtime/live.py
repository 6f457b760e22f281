"""The doorbell: says that something durable changed, and carries streaming text best effort.

A bell names a session and a topic, never content. Viewers read the log from their cursor to the
head. A lost bell or delta costs latency, never text.

Producers and viewers of one process meet here directly. Where `REDIS_URL` names a channel layer,
`start()` also relays bells and deltas to the other processes and theirs to the listeners here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from django.conf import settings

from .relay import Batch, Relay

# log: events were appended · chunks: a chunk buffer was flushed · queue, merges: pending input or notes changed
# row: what the session list shows changed · gone: deleted · access: rights changed (session id "" = to anything)
Topic = Literal["log", "chunks", "queue", "merges", "row", "gone", "access"]
Kind = Literal["text", "reasoning", "tool-args"]

GATHER_SECONDS: Final = 0.03


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
_gathering: dict[str, list[Delta]] = {}  # sessions whose last delta is younger than GATHER_SECONDS
_relay: Relay | None = None


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
    _tell_rang(session_id, topic)
    if _relay is not None:
        _relay.ring(session_id, topic)


def delta(session_id: str, piece: Delta) -> None:
    """Pass on streaming text, best effort; call from the event loop's thread.

    A piece that comes long after the one before it goes out at once; faster ones are gathered.
    """
    waiting = _gathering.get(session_id)
    if waiting is None:
        _send(session_id, [piece])
    elif waiting and _continues(waiting[-1], piece):
        waiting[-1] = replace(waiting[-1], text=waiting[-1].text + piece.text)
    else:
        waiting.append(piece)


def start() -> None:
    """Relay between processes from now on, where there is a shared channel layer. In the running loop; idempotent."""
    global _relay
    loop = asyncio.get_running_loop()
    if not settings.REDIS_URL or (_relay is not None and _relay.loop is loop):
        return
    _gathering.clear()
    _relay = Relay(loop, _hear)


async def stop() -> None:
    """Leave the channel layer; bells and deltas go on within the process."""
    global _relay
    relay, _relay = _relay, None
    if relay is not None:
        await relay.close()


def _send(session_id: str, pieces: list[Delta]) -> None:
    """Pass `pieces` on, and gather what comes within the next GATHER_SECONDS."""
    for piece in pieces:
        _tell_streamed(session_id, piece)
    if _relay is not None:
        _relay.stream(session_id, pieces)
    _gathering[session_id] = []
    asyncio.get_running_loop().call_later(GATHER_SECONDS, _release, session_id)


def _release(session_id: str) -> None:
    waiting = _gathering.pop(session_id, None)
    if waiting:
        _send(session_id, waiting)


def _continues(before: Delta, piece: Delta) -> bool:
    same_block = (before.turn, before.step, before.index) == (piece.turn, piece.step, piece.index)
    return same_block and before.offset + len(before.text) == piece.offset


def _hear(batch: Batch) -> None:
    """What another process rang and streamed."""
    for session_id, topic in batch["bells"]:
        _tell_rang(session_id, topic)
    for session_id, turn, step, index, kind, offset, text in batch["deltas"]:
        piece = Delta(turn, step, index, kind, offset, text.decode("utf-8", "surrogatepass"))
        _tell_streamed(session_id, piece)


def _tell_rang(session_id: str, topic: Topic) -> None:
    for listener in tuple(_listeners):
        listener.rang(session_id, topic)


def _tell_streamed(session_id: str, piece: Delta) -> None:
    for listener in tuple(_listeners):
        listener.streamed(session_id, piece)
