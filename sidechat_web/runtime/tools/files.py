"""Reading and changing files of the workspace."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from . import arguments, diffs
from .output import capped, count
from .registry import Result, ToolError
from .threads import Clock, in_thread
from .workspace import Place, Workspace, open_file, shown

MAX_LINES: Final = 2000
MAX_LINE_CHARS: Final = 2000
MAX_READ_CHARS: Final = 50_000
MAX_COUNTED_BYTES: Final = 32 << 20  # of a larger file the lines after those asked for are not counted
MAX_SCANNED_BYTES: Final = 256 << 20
MAX_EDIT_BYTES: Final = 5 << 20
MAX_ENTRIES: Final = 1000
_PIECE: Final = 64 << 10
_changing: Final = threading.Lock()  # one change at a time in this process: a batch of edits of one file all hold


async def read_file(root: Path, given: dict[str, Any]) -> Result:
    path = arguments.text(given, "path")
    first, limit = arguments.whole(given, "offset", 1), arguments.whole(given, "limit", MAX_LINES)

    def work(clock: Clock) -> Result:
        with Workspace(root) as workspace, workspace.open(path) as file:
            return _read(file, path, first, min(limit, MAX_LINES), clock)

    return await in_thread(work)


async def list_files(root: Path, given: dict[str, Any]) -> Result:
    path = arguments.text(given, "path", ".") or "."

    def work(clock: Clock) -> Result:
        with Workspace(root) as workspace, workspace.directory(path) as place:
            return _list(place)

    return await in_thread(work)


async def write_file(root: Path, given: dict[str, Any]) -> Result:
    path, content = arguments.text(given, "path"), arguments.text(given, "content")
    data = _encoded(content)

    def work(clock: Clock) -> Result:
        with Workspace(root) as workspace, _changing, workspace.place(path, make=True) as place:
            before = _text_before(place)
            workspace.replace(place, data)
            diff = diffs.unified(place.path, before, content)
            done = "Created" if before is None else "Replaced"
            text = f"{done} {shown(place.path)}: {count(_lines(content), 'line')}, {count(len(data), 'byte')}."
            return Result(text, meta=diff.meta(place.path))

    return await in_thread(work)


async def edit_file(root: Path, given: dict[str, Any]) -> Result:
    path, every = arguments.text(given, "path"), arguments.flag(given, "all")
    old, new = arguments.text(given, "old"), arguments.text(given, "new")
    if not old:
        raise ToolError("'old' is empty: give the exact text to replace, or use write_file to make a file.")
    if old == new:
        raise ToolError("'old' and 'new' are the same: there is nothing to change.")

    def work(clock: Clock) -> Result:
        with Workspace(root) as workspace, _changing, workspace.place(path) as place:
            return _edit(workspace, place, old, new, every)

    return await in_thread(work)


def _read(file: BinaryIO, path: str, first: int, limit: int, clock: Clock) -> Result:
    size = os.fstat(file.fileno()).st_size
    if b"\0" in file.read(8192):
        raise ToolError(f"{shown(path)} is a binary file of {count(size, 'byte')}; it cannot be shown as text.")
    file.seek(0)
    window: list[str] = []
    number = length = 0
    whole = True
    for number, line in _numbered(file, path, clock):
        if number >= first and len(window) < limit and length < MAX_READ_CHARS:
            window.append(f"{number}\t{line}")
            length += len(window[-1]) + 1
        elif number > first and size > MAX_COUNTED_BYTES:
            whole = False
            break
    if not number:
        return Result(f"{shown(path)} is empty.", meta={"path": path, "lines": 0})
    if first > number:
        raise ToolError(f"{shown(path)} has only {count(number, 'line')}; offset {first} is past its end.")
    last = first + len(window) - 1
    if last < number:
        total = f"{number}" if whole else f"more ({count(size, 'byte')} in all)"
        window.append(f"[lines {first}–{last} of {total}; go on with offset {last + 1}]")
    meta = {"path": path, "lines": number if whole else None, "shown": [first, last]}
    return Result("\n".join(window), meta=meta)


def _numbered(file: BinaryIO, path: str, clock: Clock) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a long one is cut, and only so much of it is ever held."""
    number = scanned = 0
    while piece := file.readline(_PIECE):
        number += 1
        kept, size = piece, len(piece)
        while not piece.endswith(b"\n") and scanned + size <= MAX_SCANNED_BYTES and (piece := file.readline(_PIECE)):
            size += len(piece)
            clock.left(0)
        scanned += size
        if scanned > MAX_SCANNED_BYTES:
            raise ToolError(f"That is over {MAX_SCANNED_BYTES >> 20} MiB into {shown(path)}, further than is read.")
        if number % 1000 == 0:
            clock.left(0)
        yield number, _line(kept, size)


def _line(piece: bytes, size: int) -> str:
    text = piece.decode("utf-8", "replace").rstrip("\n").rstrip("\r")
    if len(text) <= MAX_LINE_CHARS and size == len(piece):
        return text
    return f"{text[:MAX_LINE_CHARS]} [… cut: the line has {count(size, 'byte')}]"


def _list(place: Place) -> Result:
    with os.scandir(place.directory) as entries:
        found = sorted(islice(entries, 100 * MAX_ENTRIES), key=lambda entry: (not _is_directory(entry), entry.name))
    if not found:
        return Result(f"{shown(place.path)} is empty.", meta={"path": place.path, "entries": 0})
    lines = [_described(entry, place) for entry in found[:MAX_ENTRIES]]
    if len(found) > MAX_ENTRIES:
        lines.append(f"[… {len(found) - MAX_ENTRIES:,} more entries; use glob to narrow it down]")
    return Result(capped("\n".join(lines)), meta={"path": place.path, "entries": len(found)})


def _described(entry: os.DirEntry[str], place: Place) -> str:
    name = shown(entry.name)
    if entry.is_symlink():
        return f"{name} -> {shown(os.readlink(entry.name, dir_fd=place.directory))}"
    if _is_directory(entry):
        return name + "/"
    return f"{name}  ({count(entry.stat(follow_symlinks=False).st_size, 'byte')})"


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _text_before(place: Place) -> str | None:
    """What stands in the file now, as text for the diff; None where there is no file, nothing where it is no text."""
    try:
        with open_file(place.directory, place.name, place.path) as file:
            data = file.read(MAX_EDIT_BYTES + 1)
    except FileNotFoundError:
        return None
    return "" if len(data) > MAX_EDIT_BYTES or b"\0" in data else data.decode("utf-8", "replace")


def _edit(workspace: Workspace, place: Place, old: str, new: str, every: bool) -> Result:
    with open_file(place.directory, place.name, place.path) as file:
        seen, data = os.fstat(file.fileno()), file.read(MAX_EDIT_BYTES + 1)
    before = _decoded(data, place.path)
    if "\r\n" in before and "\r" not in old:
        old, new = _with_crlf(old), _with_crlf(new)
    places = before.count(old)
    if not places:
        raise ToolError(f"'old' was not found in {shown(place.path)}. {_near(before, old)}")
    if places > 1 and not every:
        where = ", ".join(str(n) for n in _lines_of(before, old, 5)) + (" …" if places > 5 else "")
        raise ToolError(
            f"'old' stands {places} times in {shown(place.path)} (lines {where}). "
            "Give more of the text around it, so that it is unique, or set 'all'."
        )
    after = before.replace(old, new)
    workspace.replace(place, _encoded(after), seen=seen)
    diff = diffs.unified(place.path, before, after)
    times = "" if places == 1 else f" in {places} places"
    return Result(
        f"Edited {shown(place.path)}{times}: +{diff.added} −{diff.removed} lines.", meta=diff.meta(place.path)
    )


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _near(text: str, old: str) -> str:
    """What the model should do about a text that is not there: the line that differs only in white space, if any."""
    wanted = old.strip().splitlines()
    for number, line in enumerate(text.splitlines(), 1):
        if wanted and line.split() == wanted[0].split():
            return f"Line {number} starts alike; compare its white space and what follows with read_file."
    return "It must match exactly, white space and line ends included; read the file again."


def _lines_of(text: str, part: str, most: int) -> Iterator[int]:
    at = 0
    for _ in range(most):
        at = text.find(part, at)
        if at < 0:
            return
        yield text.count("\n", 0, at) + 1
        at += len(part)


def _decoded(data: bytes, path: str) -> str:
    if len(data) > MAX_EDIT_BYTES:
        raise ToolError(f"{shown(path)} is too large to edit (over {MAX_EDIT_BYTES >> 20} MiB).")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{shown(path)} is not UTF-8 text, so it cannot be edited.") from None
    if "\0" in text:
        raise ToolError(f"{shown(path)} is a binary file, so it cannot be edited.")
    return text


def _encoded(text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError("The text holds half a surrogate pair, which no file can store.") from None
    if len(data) > MAX_EDIT_BYTES:
        raise ToolError(f"The text has {count(len(data), 'byte')}; at most {MAX_EDIT_BYTES >> 20} MiB are written.")
    return data


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))
