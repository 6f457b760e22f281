"""`manage.py backup FILE`: everything that was said, in one file, while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.management import backups
from sidechat_web.management.refusal import refuse


class Command(BaseCommand):
    help = "Write a backup of the database to FILE, also while the server runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--with-keys",
            action="store_true",
            help="also the secret key, .env and the MCP servers; without the key, stored provider keys are unreadable",
        )

    def handle(self, *, file: Path, with_keys: bool, **options: Any) -> None:
        try:
            backups.write(file, with_keys=with_keys)
        except backups.BackupError as e:
            refuse(self, e.message)
        kept = "with the secret key" if with_keys else "without the secret key: keep that elsewhere"
        self.stdout.write(f"{file}: {file.stat().st_size:,} bytes, {kept}.")
