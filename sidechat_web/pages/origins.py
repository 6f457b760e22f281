"""Where a session came from, and what it lacks of it, in sentences."""

from __future__ import annotations

from typing import Final

from sidechat_web.formats import chat_messages, claude_code, codex
from sidechat_web.storage.models import Session

from .replies import sentence

_PROGRAMS: Final = {
    claude_code.PROGRAM: "Claude Code",
    codex.PROGRAM: "Codex",
    chat_messages.PROGRAM: "a list of messages",
    "dsh": "DeepSeek Harness",
}


def origin(session: Session) -> list[str]:
    """What an imported or mirrored session says of itself; nothing for one that began here."""
    said = []
    imported, mirror = session.settings.get("imported"), session.settings.get("mirror", {})
    if imported is not None:
        program = _PROGRAMS.get(imported["from"], imported["from"])
        said.append(f"{'Mirrors a session of' if session.read_only else 'Imported from'} {program}.")
        if lost := imported["lost"]:
            said.append(f"Not kept: {'; '.join(lost)}.")
    if refused := mirror.get("refused"):
        said.append(f"Its file no longer continues what stands here, so nothing more is read: {refused['message']}")
    return [sentence(one) for one in said]
