"""Bring logs of other programs in: files, or folders with a session in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sidechat_web.core.errors import LogRefused
from sidechat_web.formats.importing import import_logs
from sidechat_web.formats.tree import log_files
from sidechat_web.management.targets import owner


class Command(BaseCommand):
    help = "Import session logs, files or whole folders: all of them, or none."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="a log, or a folder of logs")
        parser.add_argument("--user", help="whose sessions they become (default: the local user)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            sessions = import_logs(owner(options["user"]), _opened(options["paths"]))
        except LogRefused as refusal:
            raise CommandError(f"{refusal} ({refusal.code}); nothing was imported") from None
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}; nothing was imported") from None
        for session in sessions:
            self.stdout.write(f"{session.pk}  {session.next_seq} events  {session.title or session.log_id}")


def _opened(paths: Iterable[Path]) -> Iterator[tuple[str, BinaryIO]]:
    for file in (file for path in paths for file in log_files(path)):
        with file.open("rb") as stream:
            yield str(file), stream
