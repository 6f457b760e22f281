"""Check every invariant of stored logs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sidechat_web.formats.checking import faults
from sidechat_web.management.targets import session
from sidechat_web.storage.models import Session


class Command(BaseCommand):
    help = "Check stored logs: one line for each fault (session, seq, rule, what), exit status 1 on any."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="ID", help="session ids or log ids (default: all sessions)")

    def handle(self, *args: Any, **options: Any) -> None:
        named = [session(name) for name in options["ids"]]
        checked = found = 0
        for one in named or Session.objects.filter(deleted_at=None).order_by("pk").iterator():
            checked += 1
            for fault in faults(one):
                found += 1
                self.stdout.write(str(fault))
        if found:
            raise CommandError(f"{found} faults in {checked} sessions", returncode=1)
        self.stdout.write(f"{checked} sessions checked, no fault")
