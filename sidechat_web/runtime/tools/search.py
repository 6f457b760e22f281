"""Finding files and text in the workspace, in bounded time whatever the pattern and however large the tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import regex

from . import arguments, patterns
from .output import capped, count
from .registry import Result, ToolError
from .threads import Clock, in_thread
from .workspace import MAX_DEPTH, Denied, Place, Workspace, open_file, shown

SECONDS: Final = 10.0
LINE_SECONDS: Final = 1.0  # a pattern that takes longer for one line explodes
MAX_PATHS: Final = 1000
MAX_MATCHES: Final = 300
MAX_LINE_CHARS: Final = 300
MAX_SEARCHED_CHARS: Final = 20_000  # of one line
MAX_FILE_BYTES: Final = 8 << 20
MAX_PATTERN_CHARS: Final = 2000
# Left out unless the search starts in one or the pattern names it: large, and not what the user wrote.
SKIPPED: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    }
)


class TooLong(Exception):
    """The time of the search is over."""


@dataclass(slots=True)
class Search:
    """One search: its bounds, and what it did not look at."""

    workspace: Workspace
    clock: Clock
    wanted: frozenset[str] = frozenset()  # names that are not skipped
    notes: list[str] = field(default_factory=list)
    binary: int = 0
    large: int = 0

    def left(self) -> float:
        """Seconds that one match may take. Raises TooLong."""
        left = self.clock.left(SECONDS)
        if left <= 0:
            raise TooLong
        return min(left, LINE_SECONDS)

    def start(self, place: Place) -> Iterator[Place]:
        """Every regular file below `place`, or `place` itself where it is one."""
        if not place.name:
            yield from self._in(place)
            return
        try:
            fd = self.workspace.enter(place.directory, place.name)
        except NotADirectoryError:
            open_file(place.directory, place.name, place.path).close()
            yield place
        else:
            yield from self._held(fd, (*place.trail, place.name))

    def _in(self, place: Place) -> Iterator[Place]:
        """The files of an open directory, then those of the directories in it."""
        directories = []
        for entry in _sorted(place):
            self.left()
            if entry.is_file(follow_symlinks=False):
                yield Place(place.directory, entry.name, place.trail)
            elif entry.is_dir(follow_symlinks=False) and (entry.name not in SKIPPED or entry.name in self.wanted):
                directories.append(entry.name)
        for name in directories if len(place.trail) < MAX_DEPTH else ():
            with suppress(OSError, Denied):
                yield from self._held(self.workspace.enter(place.directory, name), (*place.trail, name))

    def _held(self, fd: int, trail: tuple[str, ...]) -> Iterator[Place]:
        try:
            yield from self._in(Place(fd, "", trail))
        finally:
            os.close(fd)

    def closing(self) -> list[str]:
        """What the answer must say about what was left out."""
        left_out = [(self.binary, "binary file"), (self.large, f"file over {MAX_FILE_BYTES >> 20} MiB")]
        return self.notes + [f"[{count(number, what)} not searched]" for number, what in left_out if number]


async def glob(root: Path, given: dict[str, Any]) -> Result:
    pattern = arguments.text(given, "pattern")

    def work(clock: Clock) -> Result:
        with Workspace(root) as workspace, workspace.directory(".") as place:
            relative = workspace.below_root(pattern)
            search = Search(workspace, clock, frozenset(relative.split("/")))
            found = _matching(search, place, patterns.compiled(relative))
        lines = [*map(shown, found), *search.closing()]
        return Result(capped("\n".join(lines)) or "No file matches.", meta={"files": len(found)})

    return await in_thread(work)


async def grep(root: Path, given: dict[str, Any]) -> Result:
    pattern = _compiled(arguments.text(given, "pattern"))
    path = arguments.text(given, "path", ".") or "."
    only = arguments.text(given, "glob", "")

    def work(clock: Clock) -> Result:
        with Workspace(root) as workspace, workspace.place(path) as place:
            search = Search(workspace, clock, frozenset(only.split("/")))
            found = _found(search, place, pattern, only)
        lines = [*found, *search.closing()]
        return Result(
            capped("\n".join(lines)) if found else "\n".join(["No match.", *lines]), meta={"matches": len(found)}
        )

    return await in_thread(work)


def _matching(search: Search, place: Place, pattern: regex.Pattern[str]) -> list[str]:
    found: list[str] = []
    try:
        for file in search.start(place):
            if not pattern.match(file.path, timeout=search.left(), concurrent=True):
                continue
            if len(found) == MAX_PATHS:
                search.notes.append(f"[… more than {MAX_PATHS} files match; narrow the pattern]")
                break
            found.append(file.path)
    except TooLong:
        search.notes.append(f"[stopped after {SECONDS:g} seconds, so there may be more; narrow the pattern or path]")
    except TimeoutError:
        search.notes.append("[stopped: the pattern takes too long; there may be more]")
    return found


def _found(search: Search, place: Place, pattern: regex.Pattern[str], only: str) -> list[str]:
    """`path:number:line` of every line that matches."""
    names = patterns.compiled(only) if only else None
    start = len(place.trail) + bool(place.name)
    found: list[str] = []
    try:
        for file in search.start(place):
            below = "/".join((*file.trail[start:], file.name))  # seen from where the search starts
            if names is not None and not names.match(below, timeout=search.left(), concurrent=True):
                continue
            for line in _lines_of(search, file, pattern):
                if len(found) == MAX_MATCHES:
                    search.notes.append(f"[… more than {MAX_MATCHES} lines match; narrow the pattern, path or glob]")
                    return found
                found.append(line)
    except TooLong:
        search.notes.append(f"[stopped after {SECONDS:g} seconds, so there may be more; narrow the pattern or path]")
    except TimeoutError:
        search.notes.append("[stopped: the pattern takes too long; there may be more]")
    return found


def _lines_of(search: Search, file: Place, pattern: regex.Pattern[str]) -> Iterator[str]:
    text = _text(search, file)
    for number, line in enumerate(text.split("\n") if text else (), 1):
        line = line.rstrip("\r")[:MAX_SEARCHED_CHARS]
        if match := pattern.search(line, timeout=search.left(), concurrent=True):
            yield f"{shown(file.path)}:{number}:{_around(line, match.start())}"


def _text(search: Search, file: Place) -> str:
    """The file's text; nothing where it is binary, too large, or not to be read."""
    try:
        with open_file(file.directory, file.name, file.path) as source:
            data = source.read(MAX_FILE_BYTES + 1)
    except (OSError, Denied):
        return ""
    if b"\0" in data[:8192]:
        search.binary += 1
        return ""
    if len(data) > MAX_FILE_BYTES:
        search.large += 1
        return ""
    return data.removesuffix(b"\n").decode("utf-8", "replace")


def _around(line: str, at: int) -> str:
    """The line, or of a long one the part with the match."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    start = max(0, min(at - MAX_LINE_CHARS // 3, len(line) - MAX_LINE_CHARS))
    stop = start + MAX_LINE_CHARS
    return ("…" if start else "") + line[start:stop] + ("…" if stop < len(line) else "")


def _compiled(pattern: str) -> regex.Pattern[str]:
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise ToolError(f"'pattern' must have 1 to {MAX_PATTERN_CHARS} characters.")
    try:
        return regex.compile(pattern)
    except regex.error as e:
        raise ToolError(f"'pattern' is not a regular expression: {e}.") from None
    except RecursionError:
        raise ToolError("'pattern' is nested too deeply.") from None


def _sorted(place: Place) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place.directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
