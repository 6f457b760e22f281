"""`manage.py user add NAME`: an account that can sign in with a password."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.accounts import audit, users
from sidechat_web.management.refusal import refuse


class Command(BaseCommand):
    help = "Manage accounts."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="add")
        add = actions.add_parser("add", help="add a user who signs in with a password")
        add.add_argument("name")
        add.add_argument(
            "--admin",
            action="store_true",
            help="they may invite others and see the admin pages; the first user is one anyway",
        )
        add.add_argument("--password-stdin", action="store_true", help="read the password from standard input")

    def handle(self, *, name: str, admin: bool, password_stdin: bool, **options: Any) -> None:
        admin = admin or users.is_first()
        try:
            users.check_name(User(username=name))
            password = sys.stdin.readline().rstrip("\n") if password_stdin else self._ask()
            users.add(name, password, admin=admin)
        except ValidationError as e:
            refuse(self, " ".join(e.messages))
        audit.record(None, None, "user.added", name, admin=admin)
        self.stdout.write(f"{name} can sign in now{', and is an admin' if admin else ''}.")

    def _ask(self) -> str:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            refuse(self, "The two passwords differ; nothing was changed.")
        return password
