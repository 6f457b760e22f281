"""Markdown rendered as it grows: what is finished once, only the open end again, at a cost linear in the length.

A rendering is a row of blocks, one element each. The finished ones never change; what comes after them is
rewritten, or its last text continued. After `finish` the blocks are exactly those of the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from django.utils.html import escape

from . import halfopen, markdown
from .markdown import Block
from .text import plain


@dataclass(frozen=True, slots=True)
class Rewrite:
    """After the first `keep` blocks stands `html`; the first `done` blocks are finished then."""

    keep: int
    done: int
    html: str


@dataclass(frozen=True, slots=True)
class Append:
    """`text` continues the last text that is shown."""

    text: str


Update: TypeAlias = Rewrite | Append

_SAFE: Final = re.compile(r"[^\\`*_\[\]<>#!|~$&/\n\t\x1b]+")  # continues a sentence and starts nothing
_LETTER: Final = re.compile(r"[^\W\d_]")
_CLOSING: Final = re.compile(r"(?:</\w+>\s*)*$")
_FENCED: Final = re.compile(r"(`{3,}|~{3,})[ ]*([^\s`]*)[^\n]*\n")
_STRONG_START: Final = re.compile(r" {0,3}(?:#{1,6} |[-*+] +\S|\d{1,9}[.)] +\S|>|`{3}|~{3})")
_UNDECIDED: Final = re.compile(r" {0,3}(?:`|~|\$\$|\||[-*+=_\d.) ]*$)")
_STANDS_ALONE: Final = re.compile(r"<(?:h\d|hr|figure)\b")
_HEADING: Final = re.compile(r"<h([3-6])\b")
_HIGHLIGHT_LEAST: Final = 200
_SHORT: Final = 4_000
_MOST_HELD: Final = 8_000  # in a longer open block, text is shown as it is written until the next rendering


class Streaming(Protocol):
    """A text that is rendered as it grows."""

    def feed(self, piece: str) -> list[Update]: ...

    def flush(self) -> list[Update]: ...

    def so_far(self) -> list[Update]: ...


def streaming(is_markdown: bool) -> Streaming:
    return StreamingMarkdown() if is_markdown else StreamingPlain()


class StreamingPlain:
    """Text as it is written, in one block."""

    def __init__(self) -> None:
        self._intake = _Intake()
        self._shown: list[str] = []

    def feed(self, piece: str) -> list[Update]:
        text = self._intake.take(piece)
        self._shown.append(text)
        return [Append(text)] if text else []

    def flush(self) -> list[Update]:
        return []

    def so_far(self) -> list[Update]:
        return [Rewrite(0, 0, markdown.written("".join(self._shown)))]


class StreamingMarkdown:
    """`feed` it a text in pieces; each returns how a rendering that followed so far has to change."""

    def __init__(self) -> None:
        self._intake = _Intake()
        self._whole: list[str] = []
        self._size = 0
        self._finished: list[str] = []
        self._context: dict[str, Any] = {}  # what the finished blocks leave to the next ones
        self._tail: list[str] = []  # the source after the finished blocks
        self._tail_size = 0
        self._open = ""  # its HTML when it was last rendered
        self._rendered = 0  # its size then
        self._joint: _Joint | None = None  # where text may be continued without rendering
        self._code: _Code | None = None  # the tail is one open code fence
        self._is_plain = False  # too long to be rendered

    def feed(self, piece: str) -> list[Update]:
        """Take more text. What cannot be shown yet is held; see `flush`."""
        text = self._intake.take(piece)
        if not text:
            return []
        self._whole.append(text)
        self._tail.append(text)
        self._size += len(text)
        self._tail_size += len(text)
        if self._is_plain:
            return self._continue_plain(text)
        if self._size > markdown.MOST_CHARACTERS:
            return self._show_plain()
        if self._code:
            return self._continue_code(self._code, text)
        if self._joint and (shown := self._joint.take(text)) is not None:
            return [Append(shown)] if shown else []
        self._joint = None
        if self._is_due:
            return self._render()
        return [Append(text)] if self._tail_size > _MOST_HELD else []

    def flush(self) -> list[Update]:
        """Render what is held, if something is."""
        shown = self._is_plain or self._code or self._joint or self._tail_size > _MOST_HELD
        return [] if shown or not self._tail else self._render()

    def finish(self) -> list[Update]:
        """There is no more text: end with the blocks of the whole."""
        self._whole.append(self._intake.rest())
        blocks = [block.html for block in markdown.parse("".join(self._whole))]
        keep = 0
        while keep < min(len(blocks), len(self._finished)) and blocks[keep] == self._finished[keep]:
            keep += 1
        self._finished, self._tail, self._open, self._code = [*map(str, blocks)], [], "", None
        return [Rewrite(keep, len(blocks), "".join(blocks[keep:]))]

    def so_far(self) -> list[Update]:
        """All of it, for one who comes late."""
        html = "".join(self._finished)
        if self._is_plain:
            html += markdown.written("".join(self._tail))
        elif self._tail:
            blocks = markdown.parse(halfopen.completed("".join(self._tail)), self._copy_of_context())
            html += "".join(block.html for block in blocks)
        begun = [Append(self._code.begun)] if self._code and self._code.begun else []
        return [Rewrite(0, len(self._finished), html), *begun]

    # -- the open end ----------------------------------------------------------------------------

    @property
    def _is_due(self) -> bool:
        """Whether the tail grew enough to be rendered again: the longer it is, the rarer."""
        share = 5 if self._tail_size <= _SHORT else 2
        return self._tail_size - self._rendered > self._tail_size >> share

    def _render(self) -> list[Update]:
        source = "".join(self._tail)
        visible = halfopen.completed(source)
        blocks = markdown.parse(visible, self._copy_of_context())
        keep, count = len(self._finished), _finished(blocks, source, visible)
        if count:
            source = self._finish_blocks(blocks[:count], source, blocks[count].start)
        shown = "".join(block.html for block in blocks[count:])
        changed = bool(count) or shown != self._open
        self._open, self._rendered = shown, len(source)
        self._joint = _Joint.after(source, visible, shown)
        html = "".join(block.html for block in blocks)
        updates: list[Update] = [Rewrite(keep, len(self._finished), html)] if changed else []
        if len(blocks) == count + 1 and (code := _Code.of(source)):
            self._code = code
            updates += [Append(code.begun)] if code.begun else []
        else:
            self._code = None
        return updates

    def _finish_blocks(self, blocks: Sequence[Block], source: str, line: int) -> str:
        """Move `blocks` to the finished ones; returns the source that is left, from `line` on."""
        at = _offset_of_line(source, line)
        done, rest = source[:at], source[at:]
        html = [str(block.html) for block in blocks]
        if "]:" in done:
            markdown.parse(done, self._context)
        elif headings := _HEADING.findall("".join(html)):
            self._context["heading"] = int(headings[-1])
        self._finished += html
        self._tail, self._tail_size = [rest], len(rest)
        return rest

    def _copy_of_context(self) -> dict[str, Any]:
        return {key: dict(value) if isinstance(value, dict) else value for key, value in self._context.items()}

    def _continue_code(self, code: _Code, text: str) -> list[Update]:
        shown = code.take(text)
        if code.is_due:
            return self._render()
        return [Append(shown)] if shown else []

    def _show_plain(self) -> list[Update]:
        """From here on nothing is rendered."""
        self._is_plain, self._joint, self._code = True, None, None
        self._finished, self._tail = [], ["".join(self._whole)]
        return self._part()

    def _continue_plain(self, text: str) -> list[Update]:
        return self._part() if self._tail_size > markdown.PART_CHARACTERS else [Append(text)]

    def _part(self) -> list[Update]:
        """Finish all parts of the tail but the last."""
        keep = len(self._finished)
        *parts, rest = markdown.parts("".join(self._tail))
        html = [str(markdown.written(part)) for part in (*parts, rest)]
        self._finished += html[:-1]
        self._tail, self._tail_size = [rest], len(rest)
        return [Rewrite(keep, len(self._finished), "".join(html))]


class _Joint:
    """The end of a running sentence: what continues it needs no rendering."""

    def __init__(self, space: str) -> None:
        self._space = space  # at the end of the source, where the parser drops it

    @classmethod
    def after(cls, source: str, visible: str, html: str) -> _Joint | None:
        """None unless the source's last character is the last one that `html` shows, outside a link."""
        said = source.rstrip(" ")
        line = said[said.rfind("\n") + 1 :]
        if not visible.startswith(said) or not said or not _SAFE.fullmatch(said[-1]) or not _LETTER.search(line):
            return None
        closing = _CLOSING.search(html)
        assert closing is not None
        if "</a>" in closing[0] or not html[: closing.start()].endswith(escape(said[-1])):
            return None
        return cls(source[len(said) :])

    def take(self, text: str) -> str | None:
        """What `text` adds to what is shown; None where it may be more than a continuation."""
        if not _SAFE.fullmatch(text):
            return None
        whole = self._space + text
        shown = whole.rstrip(" ")
        self._space = whole[len(shown) :]
        return shown


class _Code:
    """An open code fence at the left margin: its lines are shown as they come."""

    def __init__(self, marks: str, language: str, size: int) -> None:
        self._marks, self._language = marks, language
        self._size = self._rendered = size
        self._held = ""  # a line that may become the closing one
        self._begun: list[str] = []  # the part of the last line that is shown
        self._closed = False

    @classmethod
    def of(cls, source: str) -> _Code | None:
        """The fence that `source` opens and does not close."""
        opening = _FENCED.match(source)
        if opening is None or halfopen.open_fence(source) != opening[1]:
            return None
        lines = source.rfind("\n") + 1
        code = cls(opening[1], opening[2], lines)
        code.take(source[lines:])
        return code

    @property
    def begun(self) -> str:
        return "".join(self._begun)

    @property
    def is_due(self) -> bool:
        """Whether the tail must be rendered: the fence is closed, or enough lines wait for their colours."""
        if self._closed:
            return True
        if not self._language or self._held or self._begun or self._size > markdown.MOST_HIGHLIGHTED:
            return False
        return self._size - self._rendered >= max(_HIGHLIGHT_LEAST, self._rendered // 2)

    def take(self, text: str) -> str:
        """What to show now."""
        *lines, last = (self._held + text).split("\n")
        for line in lines[bool(self._begun) :]:
            self._closed = self._closed or halfopen.closes(line, self._marks)
        if lines:
            self._begun = []
        self._held = last if not self._begun and halfopen.may_close(last, self._marks) else ""
        rest = "" if self._held else last
        self._begun += [rest] if rest else []
        shown = "".join(f"{line}\n" for line in lines) + rest
        self._size += len(shown)
        return shown


class _Intake:
    """Text made fit for a page piece by piece, as `plain` does it for the whole."""

    _UNFINISHED: Final = re.compile("(?:\r|[\ud800-\udbff]|\x1b(?:\\[[0-9;?]*[ -/]*|\\][^\x07\x1b]{0,1000}\x1b?)?)$")

    def __init__(self) -> None:
        self._held = ""

    def take(self, text: str) -> str:
        text = self._held + text
        unfinished = self._UNFINISHED.search(text)
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        return _clean(text[:cut])

    def rest(self) -> str:
        held, self._held = self._held, ""
        return _clean(held)


def _clean(text: str) -> str:
    return plain(text).replace("\r\n", "\n").replace("\r", "\n")


def _finished(blocks: Sequence[Block], source: str, visible: str) -> int:
    """How many of `blocks` no further text can change: all before the last one, if that has surely begun."""
    lines = source.split("\n")
    for last in (len(blocks) - 1, len(blocks) - 2):
        if last > 0 and _has_begun(lines, blocks[last - 1], blocks[last]):
            return last
    return 0


def _has_begun(lines: Sequence[str], before: Block, block: Block) -> bool:
    """Whether `block` starts a new one whatever comes: it does not continue the one before, nor become another."""
    if block.start >= len(lines):
        return False
    line = lines[block.start]
    apart = not lines[block.start - 1].strip() or _STANDS_ALONE.match(before.html) or _STRONG_START.match(line)
    is_whole = block.start < len(lines) - 1
    return bool(apart) and (is_whole or not _UNDECIDED.match(line))


def _offset_of_line(source: str, line: int) -> int:
    at = 0
    for _ in range(line):
        at = source.index("\n", at) + 1
    return at
