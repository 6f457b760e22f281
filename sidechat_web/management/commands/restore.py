"""`manage.py restore FILE`: a backup in place of the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.management import backups
from sidechat_web.management.refusal import refuse
from sidechat_web.storage.models import Runner


class Command(BaseCommand):
    help = "Put the backup FILE in place of the database, bring it up to date and check every log."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *, file: Path, **options: Any) -> None:
        try:
            manifest, former = backups.restore(file)
        except backups.BackupError as e:
            refuse(self, e.message)
        if former is not None:
            self.stdout.write(f"The database that was here is kept as {former.name}.")
        if not manifest.keys:
            self.stdout.write("The backup has no secret key: stored provider keys need the one they were made with.")
        call_command("migrate", interactive=False, verbosity=0)
        Runner.objects.all().delete()  # they ran when the backup was made
        call_command("check_logs", stdout=self.stdout)
