"""One writer of stream chunks for the whole process: every tick, all sessions' buffers in one transaction."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from sidechat_web.storage import log
from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.log import ChunkBatch

from .db import in_db

TICK_SECONDS: Final = 0.2
_logger = logging.getLogger(__name__)

Bodies = list[tuple[int, dict[str, Any]]]


class Flusher:
    """Buffers of `(time, chunk data)` by session, for turns that this process runs. Event-loop thread only."""

    def __init__(self) -> None:
        self._buffers: dict[str, tuple[int, Bodies]] = {}
        self._wake = asyncio.Event()

    def add(self, session_id: str, turn: int, data: dict[str, Any]) -> None:
        held = self._buffers.get(session_id)
        if held is None or held[0] != turn:
            held = self._buffers[session_id] = (turn, [])
        held[1].append((now_ms(), data))
        self._wake.set()

    def take(self, session_id: str) -> Bodies:
        """What is not flushed yet, for the transaction that ends the step; the buffer is empty afterwards."""
        _, bodies = self._buffers.pop(session_id, (0, []))
        return bodies

    async def run(self) -> None:
        """Flush for ever; a failed flush is tried again at the next tick."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(TICK_SECONDS)
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        taken, self._buffers = self._buffers, {}
        batches = [ChunkBatch(session_id, turn, bodies) for session_id, (turn, bodies) in taken.items() if bodies]
        if not batches:
            return
        try:
            await in_db(log.append_chunks, batches)
        except Exception:
            _logger.exception("flushing %d chunk buffers failed; trying again", len(batches))
            self._put_back(taken)

    def _put_back(self, taken: dict[str, tuple[int, Bodies]]) -> None:
        for session_id, (turn, bodies) in taken.items():
            newer = self._buffers.get(session_id)
            if newer is None:
                self._buffers[session_id] = (turn, bodies)
            elif newer[0] == turn:
                newer[1][:0] = bodies
        self._wake.set()
