"""What a message that begins with a slash does. Any other text after the slash is an ordinary message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import merge_back
from sidechat_web.storage.models import Session


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `does` is what completion says of it, `follows` what is written after its name."""

    name: str
    does: str
    text: Literal["none", "optional", "required"] = "none"
    follows: str = ""
    sides_only: bool = False


@dataclass(frozen=True, slots=True)
class Typed:
    command: Command
    text: str


MERGE: Final = "merge"  # writes to the parent: more is asked of the user than for a message
ASIDE: Final = ("btw", "side")  # these open the panel, so that their answer is another one
COMMANDS: Final = (
    Command("btw", "Ask on the side, also while a turn runs", "optional", "question"),
    Command("side", "Ask on the side, also while a turn runs", "optional", "question"),
    Command("compact", "Summarise the oldest part of what the model sees"),
    Command("model", "Go on with another model", "required", "PROVIDER/MODEL"),
    Command("stop", "Stop the running turn; what it wrote stays"),
    Command(MERGE, "Merge this side back: its note, or your text", "optional", "your note", sides_only=True),
    Command("rename", "Rename the session", "required", "a title"),
)
_BY_NAME: Final = {command.name: command for command in COMMANDS}
_TYPED: Final = re.compile(rf"\s*/({'|'.join(_BY_NAME)})(?:\s+|$)", re.I)
_RUN: Final[dict[str, Callable[[Session, str], object]]] = {
    "compact": lambda session, text: commands.compact(session),
    "model": commands.set_model,
    "stop": lambda session, text: commands.stop(session),
    MERGE: lambda session, text: merge_back.merge(session, text=text or None),
    "rename": commands.rename,
}


def offered(session: Session) -> list[Command]:
    """The commands that completion offers in `session`."""
    return [one for one in COMMANDS if not one.sides_only or session.kind == Session.Kind.SIDE]


def read(text: str) -> Typed | None:
    """The command that `text` is; None where something follows one that takes nothing after it."""
    found = _TYPED.match(text)
    if found is None:
        return None
    typed = Typed(_BY_NAME[found[1].lower()], text[found.end() :].strip())
    return None if typed.text and typed.command.text == "none" else typed


def run(session: Session, typed: Typed) -> None:
    """Raises SidechatError where the action does, and `incomplete` where something must follow the command."""
    command = typed.command
    if command.text == "required" and not typed.text:
        raise SidechatError(f"/{command.name} needs {command.follows} after it", "incomplete")
    _RUN[command.name](session, typed.text)
