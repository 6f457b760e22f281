"""Waiting for durable state, without holding a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from sidechat_web.runtime import live
from sidechat_web.runtime.db import in_db

T = TypeVar("T")
WAIT_SECONDS: Final = 10.0
_LOOK_AGAIN_SECONDS: Final = 1.0  # a bell of another process may be lost


class _Bell:
    """Rings whenever `session_id` changed."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.rung = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def rang(self, session_id: str, topic: live.Topic) -> None:
        if session_id == self.session_id and topic != "chunks":
            self._loop.call_soon_threadsafe(self.rung.set)

    def streamed(self, session_id: str, delta: live.Delta) -> None:
        pass


async def result_of(session_id: str, look: Callable[[], T | None]) -> T | None:
    """What `look` finds, asked anew whenever `session_id` changed; None where 10 seconds bring nothing."""
    bell = _Bell(session_id)
    stop = live.listen(bell)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    try:
        while (found := await in_db(look)) is None and (left := deadline - loop.time()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(bell.rung.wait(), min(left, _LOOK_AGAIN_SECONDS))
            bell.rung.clear()
        return found
    finally:
        stop()
