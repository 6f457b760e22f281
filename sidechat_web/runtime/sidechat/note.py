"""The handback note: composed and capped, pure. Every length is in Unicode code points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime.cutting import cut

TITLE_CHARS: Final = 60
LEAST_CHARS: Final = 40  # that each of several sides must have in a note
_LABEL_CHARS: Final = 30
_LABEL: Final = re.compile(r"^\[(\d+)\] From “([^\n]*)”:$", re.M)


@dataclass(frozen=True, slots=True)
class Note:
    """What enters the parent: the fixed first line and the note, at most the cap together."""

    text: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Part:
    """What one of several sides hands back."""

    title: str
    side_id: str
    body: str


def compose(title: str, side_id: str, body: str, cap: int) -> Note:
    """The whole note. `cap` is at least 200 and counts the first line too."""
    head = first_line(title, side_id)
    kept, truncated = cut(body.strip(), cap - len(head))
    return Note(head + kept, truncated)


def compose_several(parts: Sequence[Part], cap: int) -> Note:
    """One note out of several sides, each under its label; what is too long is cut evenly.

    Raises SidechatError `too_many_sides` where some side would have less than LEAST_CHARS.
    """
    head = first_line_of_several([(part.title, part.side_id) for part in parts], cap)
    labels = [_label(number, part.title, cap // 20) for number, part in enumerate(parts, 1)]
    room = cap - len(head) - sum(map(len, labels)) - 2 * (len(parts) - 1)
    if room < LEAST_CHARS * len(parts):
        raise SidechatError(f"{len(parts)} sides do not fit into one note: take fewer at a time", "too_many_sides")
    bodies = [_LABEL.sub(r"(\1) From “\2”:", part.body.strip()) for part in parts]  # only ours are labels
    cuts = [cut(body, share) for body, share in zip(bodies, _shares(bodies, room), strict=True)]
    text = "\n\n".join(label + kept for label, (kept, _) in zip(labels, cuts, strict=True))
    return Note(head + text, any(truncated for _, truncated in cuts))


def written_for_several(sides: Sequence[tuple[str, str]], body: str, cap: int) -> Note:
    """A user's own note out of several sides, given as `(title, id)`."""
    head = first_line_of_several(sides, cap)
    kept, truncated = cut(body.strip(), cap - len(head))
    return Note(head + kept, truncated)


def first_line(title: str, side_id: str) -> str:
    return f"[Advice from the side session {named(title, side_id)}; not an instruction]\n\n"


def first_line_of_several(sides: Sequence[tuple[str, str]], cap: int) -> str:
    """The same for several sides, given as `(title, id)`: all their names, or as many as a third of the cap holds."""
    attempts = [(len(sides), limit) for limit in (TITLE_CHARS, 24, 12)] + [
        (k, 12) for k in range(len(sides) - 1, 0, -1)
    ]
    for count, limit in attempts:
        names = [named(title, side_id, limit) for title, side_id in sides[:count]]
        more = [f"{len(sides) - count} more"] if count < len(sides) else []
        line = f"[Advice from {len(sides)} side sessions: {', '.join([*names, *more])}; not an instruction]\n\n"
        if 3 * len(line) <= cap:
            break
    return line


def named(title: str, side_id: str, limit: int = TITLE_CHARS) -> str:
    """A session as fixed texts name it: its title in at most `limit` characters, and its id."""
    name, _ = cut(" ".join(title.split()) or "untitled", limit, mark="…")
    return f"“{name}” ({side_id})"


def sections(text: str) -> list[tuple[int, int]]:
    """Where the parts of a note out of several sides stand in its text, `(start, end)` by number; else empty."""
    starts: list[tuple[int, int]] = []
    for match in _LABEL.finditer(text):
        if int(match[1]) == len(starts) + 1:
            starts.append((match.start(), match.end()))
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return [(start, end) for (_, start), end in zip(starts, ends, strict=True)] if starts else []


def _label(number: int, title: str, limit: int) -> str:
    name, _ = cut(" ".join(title.split()) or "untitled", max(8, min(limit, _LABEL_CHARS)), mark="…")
    return f"[{number}] From “{name}”:\n"


def _shares(bodies: Sequence[str], room: int) -> list[int]:
    """Characters for each body: short ones whole, what they leave is shared by the long ones."""
    shares = [0] * len(bodies)
    by_length = sorted(range(len(bodies)), key=lambda k: len(bodies[k]))
    for place, k in enumerate(by_length):
        shares[k] = min(len(bodies[k]), room // (len(bodies) - place))
        room -= shares[k]
    return shares
