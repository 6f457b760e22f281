"""Blocking work of tools in threads of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final, TypeVar

T = TypeVar("T")
_GRACE_SECONDS: Final = 5.0
_threads: Final = ThreadPoolExecutor(16, thread_name_prefix="tool")


class Interrupted(Exception):
    """The work was cancelled, so nobody waits for its result."""


class Clock:
    """What long work asks again and again: whether it was cancelled, and how much of its time is left."""

    def __init__(self) -> None:
        self._cancelled = Event()
        self._started = time.monotonic()

    def cancel(self) -> None:
        self._cancelled.set()

    def left(self, seconds: float) -> float:
        """How much of `seconds` is left, at most 0 when it is over. Raises Interrupted."""
        if self._cancelled.is_set():
            raise Interrupted
        return seconds - (time.monotonic() - self._started)


async def in_thread(work: Callable[[Clock], T]) -> T:
    """Run `work` in a thread. Cancelled, it tells the work so and waits for its end: nothing happens after a result."""
    clock = Clock()
    future = asyncio.get_running_loop().run_in_executor(_threads, work, clock)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        clock.cancel()
        await asyncio.wait([future], timeout=_GRACE_SECONDS)
        if future.done() and not future.cancelled():
            future.exception()  # looked at, so that nobody logs it as forgotten
        raise
