"""Whether a socket takes more. Daphne's `send` returns at once and buffers without bound; its transport knows."""

from __future__ import annotations

import asyncio
from typing import Any


class Flow:
    """A Twisted push producer that produces nothing: it only hears when the socket's buffer is full or drained.

    Servers other than Daphne wait in `send` themselves; there the flow is always open.
    """

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @classmethod
    def of(cls, send: Any) -> Flow:
        """The flow of the connection that the ASGI callable `send` writes to."""
        flow = cls()
        protocol = next(iter(getattr(send, "args", ())), None)
        transport = getattr(protocol, "transport", None)
        if transport is not None and hasattr(transport, "registerProducer"):
            transport.unregisterProducer()  # the HTTP channel's, from before the upgrade
            transport.registerProducer(flow, True)
        return flow

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
