"""Files of one workspace directory, and never a byte of any other.

A path is walked one component at a time from an open descriptor of the root, without ever letting the kernel
follow a link: a link is read and its target walked by the same rules. So a component that is swapped during the
call is either walked as what it is or refused; there is no moment between a check and a use.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from unicodedata import category

from django.conf import settings

from .registry import ToolError

MAX_PATH_BYTES: Final = 4096
MAX_LINKS: Final = 40
MAX_DEPTH: Final = 100
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSHOWN: Final = ("Cc", "Cs", "Zl", "Zp")
_REASONS: Final = {
    errno.ENOENT: "there is no such file or directory",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EACCES: "the server has no permission",
    errno.EPERM: "the server has no permission",
    errno.ELOOP: "too many links, or it changed during the call",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the file system is read-only",
}


class Denied(ToolError):
    """The path leads out of the workspace, or to something that is not a file in it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: `name` in an open directory, or that directory itself where `name` is empty."""

    directory: int
    name: str
    trail: tuple[str, ...]  # the names of the directories from the root down to `directory`

    @property
    def path(self) -> str:
        """The path from the root, without links; `.` for the root."""
        return "/".join((*self.trail, self.name) if self.name else self.trail) or "."


class Workspace:
    """A directory, resolved once, now. Raises ToolError where it is none; use it as a context manager."""

    def __init__(self, root: Path) -> None:
        with explained(str(root)):
            self.root = Path(os.path.realpath(root, strict=True))
            self._fd = os.open(self.root, _DIRECTORY)
        self._prefixes = sorted({_prefix(root), _prefix(self.root)}, key=len, reverse=True)
        self._private = _identities(settings.DATA_DIR, "/dev", "/proc", "/sys")
        try:
            self._refuse_private(self._fd, str(root))
        except Denied:
            self.close()
            raise

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    @contextmanager
    def place(self, path: str, *, make: bool = False) -> Iterator[Place]:
        """Where `path` leads, while its directory is held open. `make` makes the directories that are missing.

        An absolute path is taken where it names something below the root.
        """
        _check_text(path)
        walk = _Walk(self, path, make)
        with explained(path):
            try:
                yield walk.to_end()
            finally:
                walk.close()

    def open(self, path: str) -> BinaryIO:
        """The regular file at `path`, open for reading."""
        with self.place(path) as place:
            return open_file(place.directory, place.name, path)

    @contextmanager
    def directory(self, path: str) -> Iterator[Place]:
        """The directory at `path`, open: a Place without a name."""
        with self.place(path) as place:
            if not place.name:
                yield place
                return
            fd = self.enter(place.directory, place.name)
            try:
                yield Place(fd, "", (*place.trail, place.name))
            finally:
                os.close(fd)

    def enter(self, directory: int, name: str) -> int:
        """A descriptor of the directory `name` in `directory`; never through a link, never a private one."""
        fd = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            self._refuse_private(fd, name)
        except Denied:
            os.close(fd)
            raise
        return fd

    def replace(self, place: Place, content: bytes, *, seen: os.stat_result | None = None) -> None:
        """Put `content` in the place of the file there, at once, keeping its mode; or make the file.

        `seen` is the state that the content was made from: raises ToolError where the file is another by now.
        """
        mode = _mode_to_keep(place)
        temporary = f".sidechat-{secrets.token_hex(8)}"
        fd = os.open(temporary, _CREATE, 0o666, dir_fd=place.directory)
        try:
            with os.fdopen(fd, "wb") as out:
                if mode is not None:
                    os.fchmod(fd, mode & 0o777)
                out.write(content)
                out.flush()
                os.fsync(fd)
            if seen is not None and not _same(seen, os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)):
                raise ToolError(f"{place.path} changed during the call; read it again")
            os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=place.directory)
            raise

    def below_root(self, path: str) -> str:
        """`path` as seen from the root, where it is absolute. Raises Denied where it is not below the root."""
        if not path.startswith("/"):
            return path
        for prefix in self._prefixes:
            if (path + "/").startswith(prefix):
                return path[len(prefix) :]
        raise Denied(f"{shown(path)} is outside the workspace. Use paths relative to the workspace.")

    def _refuse_private(self, fd: int, path: str) -> None:
        if _identity(os.fstat(fd)) in self._private:
            raise Denied(f"{shown(path)} is not open to tools.")


class _Walk:
    """One path on its way: the directories that are open, and the components that are still to be walked."""

    def __init__(self, workspace: Workspace, path: str, make: bool) -> None:
        self._workspace, self._path, self._make = workspace, path, make
        self._todo = _parts(workspace.below_root(path))
        self._fds = [os.dup(workspace._fd)]
        self._names: list[str] = []
        self._links = 0

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def to_end(self) -> Place:
        while self._todo:
            name = self._todo.pop()
            if name == "..":
                self._leave()
            elif (target := _link(self._fds[-1], name)) is not None:
                self._follow(target)
            elif self._todo:
                self._enter(name)
            else:
                return Place(self._fds[-1], name, tuple(self._names))
        return Place(self._fds[-1], "", tuple(self._names))

    def _leave(self) -> None:
        if not self._names:
            raise Denied(f"{shown(self._path)} leads out of the workspace.")
        self._names.pop()
        os.close(self._fds.pop())

    def _enter(self, name: str) -> None:
        if len(self._names) >= MAX_DEPTH:
            raise Denied(f"{shown(self._path)} is more than {MAX_DEPTH} directories deep.")
        if self._make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=self._fds[-1])
        self._fds.append(self._workspace.enter(self._fds[-1], name))
        self._names.append(name)

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, "too many links")
        if target.startswith("/"):
            try:
                target = self._workspace.below_root(target)
            except Denied:
                raise Denied(f"{shown(self._path)} leads out of the workspace.") from None
            while self._names:
                self._leave()
        self._todo += _parts(target)


def open_file(directory: int, name: str, path: str) -> BinaryIO:
    """The regular file `name` in `directory`, open for reading; never a link, never blocking.

    It is looked at before it is opened, since opening alone can wake a pipe's writer or a device.
    """
    if not name:
        raise IsADirectoryError(errno.EISDIR, "a directory")
    _refuse_special(os.stat(name, dir_fd=directory, follow_symlinks=False), path)
    fd = os.open(name, _READ, dir_fd=directory)
    try:
        _refuse_special(os.fstat(fd), path)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn the operating system's errors about `path` into sentences for the model."""
    try:
        yield
    except OSError as e:
        reason = _REASONS.get(e.errno or 0) or e.strerror or str(e)
        raise ToolError(f"{shown(path)}: {reason}.") from e


def shown(path: str) -> str:
    """A path on one line of valid text: what would break the line or the encoding is escaped, a long one cut."""
    text = "".join(c.encode("unicode_escape").decode() if category(c) in _UNSHOWN else c for c in path)
    return text if len(text) <= 500 else text[:500] + "…"


def _check_text(path: str) -> None:
    if not path:
        raise Denied("The path is empty.")
    if "\0" in path:
        raise Denied("A path cannot contain a NUL character.")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise Denied("The path is not valid text.") from None
    if size > MAX_PATH_BYTES:
        raise Denied(f"The path is too long: {size} bytes; at most {MAX_PATH_BYTES}.")


def _parts(path: str) -> list[str]:
    """The components that are left to walk, last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _link(directory: int, name: str) -> str | None:
    """The target of the link `name`, or None where it is something else or nothing."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _refuse_special(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a directory")
    if not stat.S_ISREG(status.st_mode):
        raise Denied(f"{shown(path)} is not a regular file.")


def _mode_to_keep(place: Place) -> int | None:
    """The mode of the file there, or None where there is none. Raises where something else is there."""
    if not place.name:
        raise IsADirectoryError(errno.EISDIR, "a directory")
    try:
        status = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _refuse_special(status, place.path)
    return stat.S_IMODE(status.st_mode)


def _same(a: os.stat_result, b: os.stat_result) -> bool:
    return (_identity(a), a.st_size, a.st_mtime_ns) == (_identity(b), b.st_size, b.st_mtime_ns)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _identities(*paths: str | Path) -> frozenset[tuple[int, int]]:
    """What tools never enter, wherever a workspace is: the server's own data and the kernel's file systems."""
    found = set()
    for path in paths:
        with suppress(OSError):
            found.add(_identity(os.stat(path)))
    return frozenset(found)


def _prefix(path: Path) -> str:
    return str(path).rstrip("/") + "/"
