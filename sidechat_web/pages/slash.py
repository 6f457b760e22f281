"""What a composer does with `/command`: the page's own actions, by typing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import merge_back
from sidechat_web.storage.models import Session

_COMMAND: Final = re.compile(r"/([a-z]+)(?:\s+(.*))?\s*", re.I | re.S)

_Run = Callable[[Session, str], object]
_COMMANDS: Final[dict[str, tuple[_Run, str]]] = {
    "compact": (lambda session, rest: commands.compact(session), ""),
    "stop": (lambda session, rest: commands.stop(session), ""),
    "merge": (lambda session, rest: merge_back.merge(session, text=rest or None), "maybe"),
    "rename": (lambda session, rest: commands.rename(session, rest), "a title"),
    "model": (lambda session, rest: commands.set_model(session, rest), "PROVIDER/MODEL"),
}
_MERGES: Final = "merge"


def command(text: str) -> tuple[str, str] | None:
    """`(name, what follows it)` where `text` is a command of ours; a text that only begins alike is none."""
    found = _COMMAND.fullmatch(text.strip())
    if found is None or found[1].lower() not in _COMMANDS:
        return None
    name, rest = found[1].lower(), (found[2] or "").strip()
    return None if rest and not _COMMANDS[name][1] else (name, rest)


def needs_merging(name: str) -> bool:
    """Whether the command writes to the parent, so that more is asked of the user than for a message."""
    return name == _MERGES


def run(session: Session, name: str, rest: str) -> None:
    """Raises SidechatError where the action does, and `incomplete` where something must follow the command."""
    act, takes = _COMMANDS[name]
    if takes not in ("", "maybe") and not rest:
        raise SidechatError(f"/{name} needs {takes} after it", "incomplete")
    act(session, rest)
