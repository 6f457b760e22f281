"""A socket to write to: no more than it takes, and until it has to be closed."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from .access import Credential
from .flow import Flow

STALL_SECONDS: Final = 60.0
Bye = Literal["deleted", "forbidden", "shutdown", "slow"]


class Leave(Exception):
    """The socket is to be closed; `code` is what its last frame says."""

    def __init__(self, code: Bye) -> None:
        super().__init__(code)
        self.code = code


class Outlet:
    """What viewers of any kind share. Lives on the event loop."""

    session_id = ""

    def __init__(self, flow: Flow, credential: Credential, *, html: bool = False) -> None:
        self.credential, self.html = credential, html
        self._flow = flow
        self._wake = asyncio.Event()
        self._leave: Bye | None = None

    def wake(self) -> None:
        self._wake.set()

    def leave(self, code: Bye) -> None:
        """Make `run` return, even where the socket is stuck."""
        self._leave = self._leave or code
        self._wake.set()
        self._flow.resumeProducing()

    async def run(self) -> Bye:
        """Write until the socket is to be closed; returns why."""
        try:
            await self._write()
        except Leave as leave:
            return leave.code
        return "shutdown"

    async def _write(self) -> None:
        raise NotImplementedError

    async def _send(self, text: str) -> None:
        """Send and wait until the socket takes more. Raises Leave."""
        self._check()
        if text:
            await self._flow.send(text)
        if not self._flow.is_open:
            await self._wait_until_drained()
            self._check()

    async def _wait(self) -> None:
        """Wait for something to write. Raises Leave."""
        self._check()
        await self._wake.wait()
        self._wake.clear()
        self._check()

    async def _wait_until_drained(self) -> None:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await self._flow.opened()
        except TimeoutError:
            raise Leave("slow") from None

    def _check(self) -> None:
        if self._leave:
            raise Leave(self._leave)
