"""One socket's place in a feed: it replays the log to where the feed is, then follows the tape at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal

from sidechat_web.runtime.db import in_db
from sidechat_web.runtime.live import Delta

from . import frames, html, reader
from .blocks import Key
from .flow import Flow
from .tape import Frame

if TYPE_CHECKING:
    from .feed import Feed

STALL_SECONDS: Final = 60.0
Bye = Literal["deleted", "forbidden", "shutdown", "slow"]
Send = Callable[[str], Awaitable[None]]


class Leave(Exception):
    """The socket is to be closed; `code` is what its last frame says."""

    def __init__(self, code: Bye) -> None:
        super().__init__(code)
        self.code = code


class Viewer:
    """Sends each event after `seq` exactly once, in order. Lives on the event loop."""

    def __init__(
        self, feed: Feed, send: Send, flow: Flow, *, after: int = -1, html: bool = False, chunks: bool = False
    ) -> None:
        self.feed, self.seq, self.html, self.chunks = feed, after, html, chunks
        self._send_text, self._flow = send, flow
        self._place: int | None = None  # on the feed's tape; None while replaying
        self._lengths: dict[Key, int] = {}  # of the open blocks, as the client has them
        self._wake = asyncio.Event()
        self._leave: Bye | None = None

    def wake(self) -> None:
        self._wake.set()

    def leave(self, code: Bye) -> None:
        """Make `run` return, even where the socket is stuck."""
        self._leave = self._leave or code
        self._wake.set()
        self._flow.resumeProducing()

    def resync(self) -> None:
        """Take from the log what the tape does not have for this viewer."""
        self._place = None
        self._wake.set()

    async def run(self) -> Bye:
        """Follow the feed until the socket is to be closed; returns why."""
        try:
            await self._send(self._pick(self.feed.hello()))
            while True:
                while self.seq < self.feed.cursor:
                    await self._replay(self.feed.cursor)
                for text in self._enter():
                    await self._send(text)
                await self._follow()
        except Leave as leave:
            return leave.code

    async def _replay(self, until: int) -> None:
        """Send a page of what the log has after our place; the feed may move on meanwhile."""
        if self.html:
            await self._send(await html.replay(self.feed.session_id, self.seq, until))
            self.seq = until
            return
        found = await in_db(reader.replay, self.feed.session_id, self.seq, until, chunks=self.chunks)
        for event in found:
            await self._send(frames.event(event))
            self.seq = event.seq
        if len(found) < reader.PAGE_EVENTS:
            self.seq = until

    def _enter(self) -> list[str]:
        """Go live where the feed is; returns what a client must know that no event says. Nothing may be awaited here."""
        self._place = self.feed.tape.end
        known, self._lengths = self._lengths, {}
        blocks = [frame for key, start in self._open_blocks(known) for frame in [self.feed.so_far(key, start)]]
        for frame in blocks:
            self._note(frame)
        return [text for frame in (*blocks, *self.feed.standing()) if (text := self._pick(frame))]

    def _open_blocks(self, known: dict[Key, int]) -> Iterator[tuple[Key, int]]:
        """The open blocks, each with the length from which the client lacks it."""
        for key, block in self.feed.blocks:
            have = known.get(key, 0)
            if self.html or have < block.length:
                yield key, have

    async def _follow(self) -> None:
        """Send what comes on the tape; returns when this viewer must replay."""
        tape = self.feed.tape
        while self._place is not None:
            if self._place < tape.start:
                self._place = None
                await self._send(self._pick(self.feed.gap(self.seq)))
            elif self._place == tape.end:
                self._wake.clear()
                self._check()
                await self._wake.wait()
            else:
                frame = tape.at(self._place)
                self._place += 1
                if self._wants(frame):
                    self._note(frame)
                    await self._send(self._pick(frame))

    def _wants(self, frame: Frame) -> bool:
        return (self.chunks or not frame.chunk) and not 0 <= frame.seq <= self.seq

    def _note(self, frame: Frame) -> None:
        if frame.seq >= 0:
            self.seq = frame.seq
        if frame.block:
            self._lengths[frame.block] = frame.end

    def _pick(self, frame: Frame) -> str:
        return frame.html if self.html else frame.json

    async def _send(self, text: str) -> None:
        self._check()
        if text:
            await self._send_text(text)
        if not self._flow.is_open:
            await self._wait_until_drained()
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
