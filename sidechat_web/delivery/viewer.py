"""One socket's place in a feed: it replays the log to where the feed is, then follows the tape at its own pace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sidechat_web.runtime.db import in_db

from . import frames, reader
from .blocks import Key
from .outlet import Outlet
from .tape import Frame

if TYPE_CHECKING:
    from .feed import Feed


class Viewer(Outlet):
    """Sends each event after `seq` exactly once, in order. Chunk events only with `chunks`."""

    def __init__(self, feed: Feed, *args: Any, after: int = -1, chunks: bool = False, html: bool = False) -> None:
        super().__init__(*args, html=html)
        self.feed, self.session_id = feed, feed.session_id
        self.seq, self.chunks = min(after, feed.cursor), chunks
        self._place: int | None = None  # on the feed's tape; None while replaying
        self._lengths: dict[Key, int] = {}  # of the open blocks, as the client has them

    def resync(self) -> None:
        """Take from the log what the tape does not have for this viewer."""
        self._place = None
        self.wake()

    async def _write(self) -> None:
        await self._send(self._pick(self.feed.hello()))
        while True:
            while self.seq < self.feed.cursor:
                await self._replay(self.feed.cursor)
            for text in self._enter():
                await self._send(text)
            await self._follow()

    async def _replay(self, until: int) -> None:
        """Send a page of what the log has after our place; the feed may move on meanwhile."""
        if self.html:
            await self._send(await self.feed.replay_html(self.seq, until))
            self.seq = until
            return
        found = await in_db(reader.replay, self.session_id, self.seq, until, chunks=self.chunks)
        for event in found:
            await self._send(frames.event(event))
            self.seq = event.seq
        if len(found) < reader.PAGE_EVENTS:
            self.seq = until

    def _enter(self) -> list[str]:
        """Go live where the feed is; returns what the client must know that no event says. Nothing is awaited here."""
        self._place = self.feed.tape.end
        known, self._lengths = self._lengths, {}
        blocks = [self.feed.so_far(key, start, as_html=self.html) for key, start in self._open_blocks(known)]
        for frame in blocks:
            self._note(frame)
        return [text for frame in (*blocks, *self.feed.standing()) if (text := self._pick(frame))]

    def _open_blocks(self, known: dict[Key, int]) -> Iterator[tuple[Key, int]]:
        """The open blocks, each with the length from which the client lacks it."""
        for key, block in self.feed.blocks:
            have = known.get(key, 0)
            self._lengths[key] = have
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
                await self._wait()
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
