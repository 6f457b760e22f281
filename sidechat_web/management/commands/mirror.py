"""Follow directories of other programs' sessions: each file a read-only session that grows with it."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any, Final

from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.formats.mirror import Progress
from sidechat_web.management.mirroring import Mirroring
from sidechat_web.management.refusal import refuse
from sidechat_web.management.targets import owner
from sidechat_web.runtime import live

QUIET_SECONDS: Final = 10.0  # between two lines that no terminal writes over


class Command(BaseCommand):
    help = (
        "Follow directories of DeepSeek Harness, Claude Code or Codex sessions until Ctrl+C: each becomes a "
        "read-only session that grows as its file does. A running Sidechat on the same data shows it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directories", nargs="+", type=Path, metavar="DIR")
        parser.add_argument("--user", help="whose sessions they become (default: the local user)")

    def handle(self, *args: Any, **options: Any) -> None:
        for directory in options["directories"]:
            if not directory.is_dir():
                refuse(self, f"{directory} is not a directory")
        self._tty = bool(getattr(self.stdout, "isatty", lambda: False)())
        self._told: dict[Path, float] = {}
        self._refused: dict[Path, str] = {}
        asyncio.run(self._follow(owner(options["user"]), options["directories"]))

    async def _follow(self, user: AbstractBaseUser, directories: list[Path]) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        live.start()
        mirroring = Mirroring(user, directories, self._report)
        mirroring.start()
        await stopped.wait()
        await mirroring.stop()
        await live.stop()
        self.stdout.write("\nStopped." if self._tty else "Stopped.")

    def _report(self, root: Path, progress: Progress) -> None:
        """One line that is written over on a terminal; elsewhere one now and then."""
        for path, reason in progress.refused.items():
            if self._refused.get(path) != reason:
                self._refused[path] = reason
                self.stderr.write(f"{reason} (what was read before is kept)")
        line = f"{root}: {progress.files} files, {progress.events} events"
        if self._tty:
            left = progress.files - progress.read
            self.stdout.write(f"\r{line}{f', {left} files to go' if left > 0 else ''}\x1b[K", ending="")
        elif time.monotonic() - self._told.get(root, -QUIET_SECONDS) >= QUIET_SECONDS:
            self._told[root] = time.monotonic()
            self.stdout.write(line)
        self.stdout.flush()
