"""How a command says no: one sentence on standard error, exit status 2, no traceback."""

from __future__ import annotations

import sys
from typing import NoReturn

from django.core.management.base import BaseCommand


def refuse(command: BaseCommand, sentence: str) -> NoReturn:
    command.stderr.write(sentence)
    sys.exit(2)
