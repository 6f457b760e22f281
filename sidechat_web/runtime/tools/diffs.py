"""A unified diff in bounded time: what is equal at both ends is left out before lines are compared."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .output import capped

MAX_COMPARED_LINES: Final = 3000
MAX_DIFF_CHARS: Final = 100_000
_CONTEXT: Final = 3
_LINE: Final = re.compile("[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Diff:
    text: str
    added: int
    removed: int

    def meta(self, path: str) -> dict[str, Any]:
        return {"path": path, "diff": self.text, "added": self.added, "removed": self.removed}


def unified(path: str, before: str | None, after: str) -> Diff:
    """From `before` (None: there was no file) to `after`."""
    offset, old, new = _differing(_LINE.findall(before or ""), _LINE.findall(after))
    if len(old) + len(new) > MAX_COMPARED_LINES:
        groups = [[("replace", 0, len(old), 0, len(new))]] if old or new else []
    else:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        groups = list(matcher.get_grouped_opcodes(_CONTEXT))
    lines = [line for group in groups for line in _hunk(group, old, new, offset)]
    if lines:
        lines = [f"--- {'/dev/null' if before is None else 'a/' + path}\n", f"+++ b/{path}\n", *lines]
    changed = [opcode for group in groups for opcode in group if opcode[0] != "equal"]
    return Diff(
        capped("".join(lines), MAX_DIFF_CHARS),
        sum(j2 - j1 for _, _, _, j1, j2 in changed),
        sum(i2 - i1 for _, i1, i2, _, _ in changed),
    )


def _differing(old: Sequence[str], new: Sequence[str]) -> tuple[int, list[str], list[str]]:
    """Both sides without their common lines at either end, but for the context; and how many went at the start."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    start, kept = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    return start, list(old[start : len(old) - kept]), list(new[start : len(new) - kept])


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many items both start with."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


Opcode = tuple[str, int, int, int, int]


def _hunk(group: Sequence[Opcode], old: Sequence[str], new: Sequence[str], offset: int) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_range(first[1], last[2], offset)} +{_range(first[3], last[4], offset)} @@\n"
    for tag, i1, i2, j1, j2 in group:
        if tag == "equal":
            yield from _marked(" ", old[i1:i2])
            continue
        yield from _marked("-", old[i1:i2])
        yield from _marked("+", new[j1:j2])


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _range(start: int, stop: int, offset: int) -> str:
    length = stop - start
    begin = start + offset + (1 if length else 0)
    return f"{begin}" if length == 1 else f"{begin},{length}"
