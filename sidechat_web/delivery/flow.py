"""What a socket takes. Daphne's `send` returns at once and buffers without bound; its connection knows more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from autobahn.exception import Disconnected

Message = dict[str, Any]

_LARGE: Final = 250_000  # characters; in UTF-8 still less than Daphne's limit


class Closed(Exception):
    """The client has gone."""


class Flow:
    """One connection's outgoing side: a Twisted push producer that only hears when the buffer is full or drained.

    Servers other than Daphne wait in `send` themselves; there the flow is always open.
    """

    def __init__(self, send: Callable[[Message], Awaitable[None]]) -> None:
        self._send = send
        self._open = asyncio.Event()
        self._open.set()
        self._protocol: Any = next(iter(getattr(send, "args", ())), None)
        transport = getattr(self._protocol, "transport", None)
        if transport is not None and hasattr(transport, "registerProducer"):
            transport.unregisterProducer()  # the HTTP channel's, from before the upgrade
            transport.registerProducer(self, True)

    async def send(self, text: str) -> None:
        """Send one frame. Raises Closed where the client has gone."""
        message = {"type": "websocket.send", "text": text}
        try:
            await (self._send(message) if len(text) < _LARGE else self._send_large(message))
        except Disconnected:
            raise Closed from None

    async def _send_large(self, message: Message) -> None:
        """Daphne limits what it sends by what it accepts; a frame of ours may have any size."""
        limit = getattr(self._protocol, "maxMessagePayloadSize", None)
        if limit is not None:
            self._protocol.maxMessagePayloadSize = 0
        try:
            await self._send(message)
        finally:
            if limit is not None:
                self._protocol.maxMessagePayloadSize = limit

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    async def opened(self) -> None:
        await self._open.wait()

    # Named by Twisted's IPushProducer.

    def resumeProducing(self) -> None:
        self._open.set()

    def pauseProducing(self) -> None:
        self._open.clear()

    def stopProducing(self) -> None:
        self._open.set()
