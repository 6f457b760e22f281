"""Text cut to a length where a reader minds it least.

Every length is in Unicode code points; a cut never falls inside a grapheme cluster.
"""

from __future__ import annotations

from typing import Final

import regex

MARK: Final = " […]"
_SENTENCE_END: Final = regex.compile(r"[.!?。！？…][\"'”’)\]]*(?=\s|$)|\n")
_GRAPHEME: Final = regex.compile(r"\X")


def cut(text: str, limit: int, *, mark: str = MARK) -> tuple[str, bool]:
    """`text` in at most `limit` code points, `mark` included; whether it was cut.

    Cut after a sentence where that keeps at least half, else after a word, else between graphemes.
    """
    if len(text) <= limit:
        return text, False
    room = _whole_graphemes(text, max(0, limit - len(mark)))
    ends = [m.end() for m in _SENTENCE_END.finditer(text, 0, room)]
    words = [m.start() for m in regex.finditer(r"\s+", text[: room + 1])]
    for end in (ends[-1] if ends else 0, words[-1] if words else 0):
        if end * 2 >= room and end:
            return text[:end].rstrip() + mark, True
    return text[:room] + mark, True


def _whole_graphemes(text: str, room: int) -> int:
    """The longest length ≤ `room` at which `text` may be cut."""
    if room >= len(text):
        return len(text)
    # A boundary depends on what stands before it; start a little earlier, where a boundary is certain.
    start = max(text.rfind("\n", 0, room), text.rfind(" ", 0, room), 0)
    last: int = start
    for match in _GRAPHEME.finditer(text, start):
        if match.end() > room:
            break
        last = match.end()
    return last
