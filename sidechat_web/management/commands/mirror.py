"""Follow directories of other programs' sessions: each file a read-only session that grows with it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.formats.mirror import Progress
from sidechat_web.management.mirroring import Mirroring
from sidechat_web.management.refusal import refuse
from sidechat_web.management.targets import owner
from sidechat_web.runtime import live


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
        self._told: dict[Path, str] = {}
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
        """One line that is written over on a terminal; elsewhere one for each round that changed something."""
        for path, reason in progress.refused.items():
            if self._refused.get(path) != reason:
                self._refused[path] = reason
                self.stderr.write(f"{reason} (kept as it was read before)")
        line = f"{root}: {progress.read} of {progress.files} files, {progress.events} events"
        if self._tty:
            self.stdout.write(f"\r{line}", ending="")
        elif progress.read == progress.files and self._told.get(root) != line:
            self._told[root] = line
            self.stdout.write(line)
        self.stdout.flush()
