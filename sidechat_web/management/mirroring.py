"""Mirrors beside an event loop: a thread for each directory, and bells to whoever watches the sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from django.contrib.auth.models import AbstractBaseUser

from sidechat_web.formats.mirror import Mirror, Progress
from sidechat_web.runtime import live

FAREWELL_SECONDS: Final = 5.0  # then what a mirror is at is undone
Report = Callable[[Path, Progress], None]


class Mirroring:
    """From `start` to `stop`. `report` is called in a mirror's thread, with its directory and how far it is."""

    def __init__(
        self, owner: AbstractBaseUser, roots: Sequence[Path], report: Report = lambda root, progress: None
    ) -> None:
        self._stopped = threading.Event()
        self._threads = [self._thread(owner, root, report) for root in roots]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    async def stop(self) -> None:
        """Return when every mirror has ended what it was at, or FAREWELL_SECONDS are over."""
        self._stopped.set()
        await asyncio.gather(*(asyncio.to_thread(thread.join, FAREWELL_SECONDS) for thread in self._threads))

    def _thread(self, owner: AbstractBaseUser, root: Path, report: Report) -> threading.Thread:
        mirror = Mirror(owner, root, changed=_ring, report=lambda progress: report(root, progress))
        return threading.Thread(target=mirror.run, args=[self._stopped], name=f"mirror of {root}", daemon=True)


def _ring(session_id: str) -> None:
    live.ring(session_id, "row")
