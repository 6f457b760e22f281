"""`manage.py user add NAME`: an account that can sign in with a password."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.management.refusal import refuse


class Command(BaseCommand):
    help = "Manage accounts."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="add")
        add = actions.add_parser("add", help="add a user who signs in with a password")
        add.add_argument("name")
        add.add_argument("--password-stdin", action="store_true", help="read the password from standard input")

    def handle(self, *, name: str, password_stdin: bool, **options: Any) -> None:
        user = User(username=name)
        try:
            user.clean_fields(exclude=["password"])
            user.validate_unique()
            password = sys.stdin.readline().rstrip("\n") if password_stdin else self._ask()
            validate_password(password, user)
        except ValidationError as e:
            refuse(self, " ".join(e.messages))
        user.set_password(password)
        user.save()
        self.stdout.write(f"{name} can sign in now.")

    def _ask(self) -> str:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            refuse(self, "The two passwords differ; nothing was changed.")
        return password
