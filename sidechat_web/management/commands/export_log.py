"""Write one session as a file of another form."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.formats.exporting import export_dsh, export_markdown, export_openai
from sidechat_web.management.targets import session
from sidechat_web.storage.models import Session

_FORMATS: Final[dict[str, Callable[[Session], Iterator[bytes]]]] = {
    "dsh": export_dsh,
    "dsh-zstd": lambda session: export_dsh(session, compress=True),
    "markdown": export_markdown,
    "openai": export_openai,
}


class Command(BaseCommand):
    help = "Export a session, as a DeepSeek Harness log unless another format is named."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="the session's id, or its log id")
        parser.add_argument("--format", choices=list(_FORMATS), default="dsh")
        parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        pieces = _FORMATS[options["format"]](session(options["id"]))
        if options["output"] is None:
            sys.stdout.buffer.writelines(pieces)
            sys.stdout.buffer.flush()
        else:
            with options["output"].open("wb") as out:
                out.writelines(pieces)
