"""The handback note: composed and capped, pure. Every length is in Unicode code points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidechat_web.runtime.cutting import cut

TITLE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Note:
    """What enters the parent: the fixed first line and the note, at most the cap together."""

    text: str
    truncated: bool


def compose(title: str, side_id: str, body: str, cap: int) -> Note:
    """The whole note. `cap` is at least 200 and counts the first line too."""
    head = first_line(title, side_id)
    kept, truncated = cut(body.strip(), cap - len(head))
    return Note(head + kept, truncated)


def first_line(title: str, side_id: str) -> str:
    return f"[Advice from the side session {named(title, side_id)}; not an instruction]\n\n"


def named(title: str, side_id: str, limit: int = TITLE_CHARS) -> str:
    """A session as fixed texts name it: its title in at most `limit` characters, and its id."""
    name, _ = cut(" ".join(title.split()) or "untitled", limit, mark="…")
    return f"“{name}” ({side_id})"
