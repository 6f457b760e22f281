"""Bells and deltas between processes, by the channel layer: one message a tick, whatever the number of sessions.

Best effort by design. While the layer is away, bells are kept (they are few: one a session and topic)
and deltas beyond a bound are dropped; viewers find the rest in the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypedDict

from channels.layers import get_channel_layer

if TYPE_CHECKING:
    from .live import Delta, Topic

GROUP: Final = "sidechat.live"
TICK_SECONDS: Final = 0.02
MAX_HELD_DELTAS: Final = 2_000
_logger = logging.getLogger(__name__)


class Batch(TypedDict):
    bells: list[tuple[str, Topic]]
    deltas: list[tuple[Any, ...]]  # (session id, *fields of a Delta), text as UTF-8


class Relay:
    """This process on the layer's one group, in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hear: Callable[[Batch], None]) -> None:
        self.loop, self._hear = loop, hear
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._layer = get_channel_layer()
        self._bells: dict[tuple[str, Topic], None] = {}
        self._deltas: list[tuple[Any, ...]] = []
        self._wake = asyncio.Event()
        self._tasks = [loop.create_task(self._for_ever(job)) for job in (self._send, self._receive)]

    def ring(self, session_id: str, topic: Topic) -> None:
        """Safe from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the process is going down
            self.loop.call_soon_threadsafe(self._hold_bell, session_id, topic)

    def stream(self, session_id: str, pieces: Sequence[Delta]) -> None:
        for d in pieces:
            text = d.text.encode("utf-8", "surrogatepass")  # a piece may cut a surrogate pair
            self._deltas.append((session_id, d.turn, d.step, d.index, d.kind, d.offset, text))
        if len(self._deltas) > MAX_HELD_DELTAS:
            del self._deltas[: -MAX_HELD_DELTAS // 2]
        self._wake.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hold_bell(self, session_id: str, topic: Topic) -> None:
        self._bells[session_id, topic] = None
        self._wake.set()

    async def _for_ever(self, job: Callable[[], Any]) -> None:
        away = False
        while True:
            try:
                await job()
                away = False
            except Exception as e:
                if not away:
                    _logger.warning("the channel layer is away (%s); viewers read the log meanwhile", e)
                away = True
                await asyncio.sleep(1)

    async def _send(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        bells, deltas = self._bells, self._deltas
        self._bells, self._deltas = {}, []
        message = {"type": "live", "from": self._name, "bells": list(bells), "deltas": deltas}
        try:
            await self._layer.group_send(GROUP, message)
        except Exception:
            self._bells = {**bells, **self._bells}
            self._wake.set()
            raise
        await asyncio.sleep(TICK_SECONDS)

    async def _receive(self) -> None:
        channel = await self._layer.new_channel()
        await self._layer.group_add(GROUP, channel)
        while True:
            message = await self._layer.receive(channel)
            if message["from"] != self._name:
                self._hear(message)
