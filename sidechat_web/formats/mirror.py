"""Directories of other programs' sessions, followed live: each file a read-only session that grows with it.

The system says which files change (inotify and its like), where it can; on file systems that cannot, they
are polled. A slow sweep finds what no notice came for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.contrib.auth.models import AbstractBaseUser
from django.db import close_old_connections
from watchfiles import watch

from sidechat_web.storage.models import Session

from .following import Follower
from .tree import SUFFIXES, log_files

SWEEP_SECONDS: Final = 30.0
TICK_MS: Final = 250
POLL_SECONDS: Final = 1.0
_REST: Final = 20  # polling rests this many times as long as it looks
_GATHER_MS: Final = 20  # changes that come closer together are one look
_GATHER_AT_MOST_MS: Final = 200
_REMEMBERED: Final = 64  # files whose reading goes on from memory; others are read whole when they grow
_SILENT: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "vboxsf", "prl_fs"})
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """`read` of `files` were looked at in the last sweep; `events` were added since the start."""

    files: int = 0
    read: int = 0
    events: int = 0
    refused: dict[Path, str] = field(default_factory=dict)


class Mirror:
    """Follows the logs below `root` for `owner`. `run` in a thread that may block; the callbacks run there, too.

    `changed` hears the id of each session that was made, grew or was refused, after the commit.
    """

    def __init__(
        self,
        owner: AbstractBaseUser,
        root: Path,
        *,
        changed: Callable[[str], None] = lambda session_id: None,
        report: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self.root = root.resolve()
        self.progress = Progress()
        self._owner = owner
        self._changed, self._report = changed, report
        self._followers: dict[Path, Follower] = {}
        self._awake: set[Follower] = set()  # those that remember, or that time alone gives something to do
        self._seen: dict[str, dict[str, int]] = {}
        self._swept_at = 0.0
        self._sweep_took = 0.0
        self._stop = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Follow until `stop` is set. The directory may come later, go, and be another one."""
        self._stop = stop
        self._seen = _seen_before(self._owner)
        polling = False
        while not stop.is_set():
            identity = _identity(self.root)
            if identity is None:
                stop.wait(TICK_MS / 1000)
                continue
            try:
                follow = self._poll if polling or _is_silent(self.root) else self._watch
                follow(identity)
            except (OSError, RuntimeError) as error:  # no more watches to be had
                _logger.warning("%s cannot be watched (%s); polling it", self.root, error)
                polling = True
                stop.wait(1)
        close_old_connections()

    def sweep(self) -> None:
        """Look at every file once."""
        started = time.monotonic()
        found = sorted(log_files(self.root), key=_modified, reverse=True)
        for gone in self._followers.keys() - found:
            self._awake.discard(self._followers.pop(gone))
            self.progress.refused.pop(gone, None)
        self.progress.files, self.progress.read = len(found), 0
        for path in found:
            if self._stop.is_set():
                return
            self.look([path])
            self.progress.read += 1
            self._report(self.progress)
        self._swept_at = time.monotonic()
        self._sweep_took = self._swept_at - started

    def look(self, paths: Iterable[Path]) -> None:
        """Take in what these files have more than at the last look."""
        for path in paths:
            follower = self._followers.get(path)
            if follower is None:
                seen = self._seen.pop(str(path), None)
                follower = self._followers[path] = Follower(self._owner, path, seen)
            self._look(follower)
            self.progress.files = max(self.progress.files, len(self._followers))

    def tick(self) -> None:
        """What time alone brings: turns that silence ends, and refused files' second chance."""
        for follower in [f for f in self._awake if f.restless]:
            self._look(follower)

    def _watch(self, identity: object) -> None:
        """Hear of changes in one directory; returns when it is another one. Raises OSError where none can be heard."""
        notices = watch(
            self.root,
            watch_filter=None,
            debounce=_GATHER_AT_MOST_MS,
            step=_GATHER_MS,
            stop_event=self._stop,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=False,
            ignore_permission_denied=True,
        )
        self._swept_at = -SWEEP_SECONDS
        with closing(notices):
            for changes in notices:
                self.look(_logs_among(Path(path) for _, path in changes))
                if self._is_over(identity, SWEEP_SECONDS):
                    return

    def _poll(self, identity: object) -> None:
        """Look at every file again and again; returns when the directory is another one."""
        rest = 0.0
        while not self._is_over(identity, rest):
            rest = max(POLL_SECONDS, _REST * self._sweep_took)
            self._stop.wait(TICK_MS / 1000)

    def _is_over(self, identity: object, rest: float) -> bool:
        """One round: what time brings, a sweep after `rest` seconds; whether it was the last."""
        self.tick()
        if time.monotonic() - self._swept_at >= rest:
            self.sweep()
        close_old_connections()
        return self._stop.is_set() or _identity(self.root) != identity

    def _look(self, follower: Follower) -> None:
        session_id, refusal = follower.session_id, follower.refusal
        try:
            added = follower.look()
        except Exception:
            _logger.exception("reading %s failed; trying again later", follower.path)
            follower.forget()
            return
        self.progress.events += added
        self._keep(follower)
        if added or follower.session_id != session_id or follower.refusal is not refusal:
            if follower.session_id:
                self._changed(follower.session_id)
            self._report(self.progress)

    def _keep(self, follower: Follower) -> None:
        """Note what became of the file. Where too many are remembered, the one that changed longest ago is let go."""
        if follower.remembers or follower.restless:
            self._awake.add(follower)
        else:
            self._awake.discard(follower)
        if len(self._awake) > _REMEMBERED:
            oldest = min(self._awake, key=lambda one: one.changed_ns)
            oldest.forget()
            self._awake.discard(oldest)
        if follower.refusal is None:
            self.progress.refused.pop(follower.path, None)
        else:
            self.progress.refused[follower.path] = str(follower.refusal)


def _seen_before(owner: AbstractBaseUser) -> dict[str, dict[str, int]]:
    """By path, the state of each file that a mirror read last."""
    mirrors = Session.objects.filter(owner_id=owner.pk, deleted_at=None, kind=Session.Kind.MIRROR)
    notes: Iterator[Any] = (settings.get("mirror", {}) for settings in mirrors.values_list("settings", flat=True))
    return {note["path"]: {"size": note["size"], "time": note["time"]} for note in notes if "size" in note}


def _logs_among(paths: Iterable[Path]) -> Iterator[Path]:
    """The logs that a notice about these paths is about; a directory may have come with files in it."""
    for path in paths:
        if path.name.endswith(SUFFIXES):
            yield path
        elif path.is_dir():
            yield from log_files(path)


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        stat = root.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_silent(root: Path) -> bool:
    """Whether the directory's file system gives no notice of what others write there."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return False
    where = str(root.resolve()) + "/"
    fields = [line.split(" ") for line in mounts]
    above = [(len(f[1]), f[2]) for f in fields if where.startswith(f[1].rstrip("/") + "/")]
    return max(above, default=(0, ""))[1] in _SILENT
