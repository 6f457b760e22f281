"""Markdown that is still being written, cut or closed at its end so that no raw marks show meanwhile.

A guess about what comes next, made anew at each look; the whole text is rendered by the parser alone.
"""

from __future__ import annotations

import re
from typing import Final

FENCE: Final = re.compile(r"^[ >]*(?:(?:[-*+]|\d{1,9}[.)])[ ]+)*(`{3,}|~{3,})([^\n]*)$")
_MARKERS_ONLY: Final = re.compile(r"^[ \t>]*(?:[-*+=#>`~_|:]+[-*+=#>`~_|: ]*|\d{1,9}[.)]?[ ]*|[-*+][ ]+\[[ xX]?\]?)$")
_BLOCK_START: Final = re.compile(r"^[ \t]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+|#{1,6}[ \t]+|>[ >]*|\|)+")
_SPECIAL: Final = re.compile(r"[\\`$\[\]*_~<&!]")
_AUTOLINK: Final = re.compile(r"<[A-Za-z]{0,8}(?::[^\s<>]*)?$")
_ENTITY: Final = re.compile(r"&(?:#?\w{0,31})$")
_DELIMITER_ROW: Final = re.compile(r"^ {0,3}\|?[ :|-]*$")
_MATH_END: Final = re.compile(r"\$\$\s*(?:\([^)$]+\)\s*)?$")
_LONGEST_LINK_TEXT: Final = 300
_LONGEST_MATH: Final = 80
_LONGEST_BLOCK_MATH: Final = 2_000


def completed(source: str) -> str:
    """`source` without a construct that has only begun, and with those closed whose content can already be shown."""
    head, line = _split_last_line(source)
    fence, math = _open_blocks(head)
    if fence:
        return head  # code line by line
    if math is not None:
        return source[:math]
    if FENCE.match(line) or line.lstrip().startswith("$$"):
        return head
    if not line.strip() or _MARKERS_ONLY.match(line):
        return _with_table(head)
    if table := _begun_table(head, line):
        return table
    start = _last_run(source)
    return source[:start] + _closed(source[start:])


def open_fence(source: str) -> str:
    """The marks of the code fence that is open after the last whole line, or an empty string."""
    return _open_blocks(_split_last_line(source)[0])[0]


def closes(line: str, fence: str) -> bool:
    """Whether a whole line ends the code that `fence` began."""
    marks = line.strip(" >")
    return len(marks) >= len(fence) and not marks.strip(fence[0])


def may_close(line: str, fence: str) -> bool:
    """Whether a line that has only begun may become the end of the fence."""
    return not line.strip(" >").strip(fence[0])


def _split_last_line(source: str) -> tuple[str, str]:
    cut = source.rfind("\n") + 1
    return source[:cut], source[cut:]


def _open_blocks(head: str) -> tuple[str, int | None]:
    """The marks of the code fence that is open after `head`, or where the math block starts that is."""
    fence, math, at, previous = "", None, 0, ""
    for line in head.split("\n"):
        if fence:
            if closes(line, fence):
                fence = ""
        elif math is not None:
            if _MATH_END.search(line):
                math = None
        elif found := FENCE.match(line):
            if found[1][0] != "`" or "`" not in found[2]:
                fence = found[1]
        elif line.startswith("$$") and "$$" not in line[2:] and not previous.strip():
            math = at
        at += len(line) + 1
        previous = line
    return fence, math if math is not None and len(head) - math <= _LONGEST_BLOCK_MATH else None


def _begun_table(head: str, line: str) -> str:
    """A header row, alone or with the row of dashes under it begun, made a table; else an empty string."""
    if line.lstrip().startswith("|"):
        before = head[head.rstrip("\n").rfind("\n") + 1 :]
        if not before.lstrip().startswith("|"):
            return _with_dashes(head, line)
    return ""


def _with_table(head: str) -> str:
    """`head`, its last line made the header of a table where it looks like one and nothing says otherwise."""
    above, row = _split_last_line(head.removesuffix("\n"))
    previous = above.removesuffix("\n").rpartition("\n")[2]
    if row.lstrip().startswith("|") and not previous.lstrip().startswith("|"):
        return _with_dashes(above, row)
    return head


def _with_dashes(above: str, row: str) -> str:
    cells = row.strip().strip("|").split("|")
    return f"{above}{row.rstrip()}\n|{'-|' * max(1, len(cells))}"


def _last_run(source: str) -> int:
    """Where the inline text starts that is still being written: after the last mark that starts a block."""
    end = len(source)
    while end > 0:
        start = source.rfind("\n", 0, end) + 1
        line = source[start:end]
        if not line.strip() and end < len(source):
            return end
        if found := _BLOCK_START.match(line):
            return start + found.end()
        end = start - 1
    return 0


def _closed(text: str) -> str:
    """Inline text with what is open at its end hidden or closed."""
    scan = _Scan(text)
    scan.run()
    return scan.result()


class _Scan:
    """One pass over inline text: the delimiters that are open at its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.cut = len(text)  # what stands after it is hidden
        self.hidden: list[tuple[int, int]] = []  # ranges of marks whose content is shown without them
        self.open: list[tuple[str, int, int]] = []  # emphasis marks: char, how many, where
        self.brackets: list[int] = []
        self.tail = ""  # closes a code span

    def run(self) -> None:
        at = 0
        while at < self.cut and (found := _SPECIAL.search(self.text, at)):
            at = _STEPS[found[0]](self, found.start())

    def result(self) -> str:
        for bracket in self.brackets:
            if self.cut - bracket <= _LONGEST_LINK_TEXT:
                self._hide(bracket)
        marks = [mark for mark in self.open if mark[2] + mark[1] < self.cut]
        out, at = [], 0
        for start, end in sorted(self.hidden):
            out.append(self.text[at : min(start, self.cut)])
            at = max(at, end)
        out.append(self.text[at : self.cut])
        shown = "".join(out)
        if marks or self.tail:
            shown = shown.rstrip()
        return shown + self.tail + "".join(char * count for char, count, _ in reversed(marks))

    def escape(self, at: int) -> int:
        if at + 1 >= len(self.text):
            self.cut = at
        return at + 2

    def code(self, at: int) -> int:
        length = self._length(at)
        marks = self.text[at : at + length]
        close = re.compile(rf"(?<!`){marks}(?!`)").search(self.text, at + length)
        if close:
            return close.end()
        if not self.text[at + length :].strip():
            self.cut = at
        else:
            self.cut = len(self.text.rstrip("`"))
            self.tail = marks
        return len(self.text)

    def math(self, at: int) -> int:
        length = min(2, self._length(at))
        close = self.text.find("$" * length, at + length)
        if close >= 0:
            return close + length
        rest = self.text[at + length :]
        if length == 2 or (len(rest) <= _LONGEST_MATH and not rest[:1].isspace() and not rest[:1].isdigit()):
            self.cut = at
            return len(self.text)
        return at + length

    def bracket(self, at: int) -> int:
        self.brackets.append(at)
        return at + 1

    def bracket_close(self, at: int) -> int:
        if not self.brackets:
            return at + 1
        start = self.brackets.pop()
        after = self.text[at + 1 : at + 2]
        if after == "(":
            return self._destination(start, at)
        if after == "[" and "]" not in self.text[at + 2 :]:
            self._only_text(start, at)
            return len(self.text)
        if not after:
            self._only_text(start, at)
        return at + 1

    def emphasis(self, at: int) -> int:
        char, length = self.text[at], self._length(at)
        end = at + length
        before, after = self.text[at - 1 : at] if at else "", self.text[end : end + 1]
        if char == "~" and length != 2:
            if not after:
                self.cut = at
            return end
        opens = bool(after) and not after.isspace() and not (char == "_" and before.isalnum())
        closes = bool(before) and not before.isspace() and not (char == "_" and after.isalnum())
        left = self._close(char, length) if closes else length
        if left and not after:
            self.cut = end - left
        elif left and opens:
            self.open.append((char, left, end - left))
        return end

    def angle(self, at: int) -> int:
        if _AUTOLINK.match(self.text, at):
            self.cut = at
        return at + 1

    def entity(self, at: int) -> int:
        if _ENTITY.match(self.text, at):
            self.cut = at
        return at + 1

    def bang(self, at: int) -> int:
        if at + 1 == len(self.text) and (at == 0 or self.text[at - 1].isspace()):
            self.cut = at
        return at + 1

    def _length(self, at: int) -> int:
        end = at
        while end < len(self.text) and self.text[end] == self.text[at]:
            end += 1
        return end - at

    def _close(self, char: str, length: int) -> int:
        """Close what is open with up to `length` marks; returns how many are left."""
        while length and any(mark[0] == char for mark in self.open):
            while self.open[-1][0] != char:
                self.open.pop()
            _, count, where = self.open.pop()
            used = min(count, length)
            length -= used
            if count > used:
                self.open.append((char, count - used, where))
        return length

    def _destination(self, start: int, at: int) -> int:
        depth = 0
        for i in range(at + 1, len(self.text)):
            if self.text[i] == "(":
                depth += 1
            elif self.text[i] == ")":
                depth -= 1
                if not depth:
                    return i + 1
            elif self.text[i] == "\n" and self.text[i - 1] == "\n":
                return at + 1
        self._only_text(start, at)
        return len(self.text)

    def _only_text(self, start: int, end: int) -> None:
        """Show a link or image that has only begun by its text."""
        self._hide(start)
        self.cut = end

    def _hide(self, bracket: int) -> None:
        image = bracket > 0 and self.text[bracket - 1] == "!"
        self.hidden.append((bracket - image, bracket + 1))


_STEPS: Final = {
    "\\": _Scan.escape,
    "`": _Scan.code,
    "$": _Scan.math,
    "[": _Scan.bracket,
    "]": _Scan.bracket_close,
    "*": _Scan.emphasis,
    "_": _Scan.emphasis,
    "~": _Scan.emphasis,
    "<": _Scan.angle,
    "&": _Scan.entity,
    "!": _Scan.bang,
}
