"""Which runner processes live: a row with a heartbeat, and here a locked file that a kill releases at once."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from pathlib import Path
from typing import IO, Final

from django.conf import settings

from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.models import Runner

LAPSE_MS: Final = 15_000


class Presence:
    """This process as a runner."""

    def __init__(self) -> None:
        self.id = f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: IO[str] | None = None

    def arrive(self) -> None:
        folder = _folder()
        folder.mkdir(exist_ok=True)
        self._lock = (folder / self.id).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.beat()

    def beat(self) -> None:
        Runner.objects.update_or_create(pk=self.id, defaults={"heartbeat": now_ms()})

    def leave(self) -> None:
        Runner.objects.filter(pk=self.id).delete()
        if self._lock is not None:
            (_folder() / self.id).unlink(missing_ok=True)
            self._lock.close()


def alive() -> set[str]:
    """The ids of the runners that live; the rows and files of the dead are removed."""
    living = set()
    for runner in Runner.objects.all():
        if _lives(runner):
            living.add(runner.pk)
        else:
            (_folder() / runner.pk).unlink(missing_ok=True)
            runner.delete()
    return living


def _lives(runner: Runner) -> bool:
    """A runner of this machine lives while it holds its lock; one elsewhere while its heartbeat is fresh."""
    try:
        with (_folder() / runner.pk).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return runner.heartbeat > now_ms() - LAPSE_MS


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "runners"
