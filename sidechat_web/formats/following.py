"""One session file of another program, read on as it grows.

The first look reads it whole and holds it against what is stored; later ones read what was added. A file
that is another one now, or shorter, is read whole again. What was stored stays stored: a file that no
longer continues it is refused, and the session says so in `settings["mirror"]["refused"]`.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from sidechat_web.core.errors import LogConflict, LogRefused
from sidechat_web.storage.models import Session

from . import storable
from .importing import continuing, session_of, store
from .incoming import Incoming, NothingYet
from .opening import open_log

_SEAM_BYTES: Final = 4096
_QUIET_SECONDS: Final = 60.0  # after which what stands unfinished at the end of a file is what a crash left
_REST: Final = 10  # a refused file is read again after this many times the time that it took


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells a file's states apart."""

    file: tuple[int, int]
    size: int
    time_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Mark:
        return cls((stat.st_dev, stat.st_ino), stat.st_size, stat.st_mtime_ns)

    def as_json(self) -> dict[str, int]:
        return {"size": self.size, "time": self.time_ns}


class Follower:
    """`look` takes in what the file has more than at the last look. One thread; transactions of its own."""

    def __init__(self, owner: AbstractBaseUser, path: Path, seen: dict[str, int] | None = None) -> None:
        """`seen` is the state of the file that was read last, before this process started."""
        self.path = path
        self.session_id = ""
        self.refusal: LogRefused | None = None
        self._owner = owner
        self._seen = seen
        self._mark: Mark | None = None
        self._log: Incoming | None = None
        self._seam = b""
        self._rest_until = 0.0
        self._put_off = False  # the file changed while it rested

    @property
    def restless(self) -> bool:
        """Whether time alone may give the next look something to do."""
        return self._put_off or (self._log is not None and (self._log.patience is not None or self._has_tail))

    def look(self) -> int:
        """How many events were added. Refusals are kept in `refusal`; a file that is away adds nothing."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), self.path.open("rb") as stream:
            mark = Mark.of(os.fstat(stream.fileno()))
            if mark.as_json() == self._seen:
                return 0
            self._seen = None
            self._put_off = mark != self._mark and self._rests(mark)
            if not self._put_off:
                added = self._read(stream, mark) if mark != self._mark else 0
                return added + self._wait(mark)
        return 0

    def forget(self) -> None:
        """Keep nothing in memory; the next look that finds something new reads the file whole."""
        self._log = None

    @property
    def remembers(self) -> bool:
        return self._log is not None

    @property
    def changed_ns(self) -> int:
        """When the file was written last, as far as that was read."""
        return self._mark.time_ns if self._mark else 0

    # -- reading ---------------------------------------------------------------------------------

    def _read(self, stream: BinaryIO, mark: Mark) -> int:
        started = time.monotonic()
        try:
            with transaction.atomic():
                added = self._go_on(stream) if self._continues(stream, mark) else self._start(stream)
                self._note(mark)
        except NothingYet:
            self._log, added = None, 0
        except LogRefused as refusal:
            self._refuse(refusal, time.monotonic() - started)
            added = 0
        except Session.DoesNotExist:
            self._log, added = None, 0  # deleted here
        else:
            self.refusal, self._rest_until = None, 0.0
            self._remember_seam(stream)
        self._mark = mark
        return added

    def _rests(self, mark: Mark) -> bool:
        """Whether the same file was refused a moment ago."""
        return time.monotonic() < self._rest_until and self._mark is not None and mark.file == self._mark.file

    def _continues(self, stream: BinaryIO, mark: Mark) -> bool:
        """Whether the file still begins with what was read of it, as far as its size and a look at the seam tell."""
        if self._log is None or self._mark is None or mark.file != self._mark.file or mark.size < self._log.offset:
            return False
        stream.seek(self._log.offset - len(self._seam))
        return stream.read(len(self._seam)) == self._seam

    def _go_on(self, stream: BinaryIO) -> int:
        assert self._log is not None
        session = Session.objects.select_for_update(no_key=True).get(pk=self.session_id, deleted_at=None)
        if session.next_seq != self._log.length:
            return self._start(stream)  # someone else stored more of it
        before = session.next_seq
        store(session, self._log, self._log.more(stream), read_only=True)
        return session.next_seq - before

    def _start(self, stream: BinaryIO, *, whole: bool = False) -> int:
        """Read from the beginning; `whole` also takes what stands unfinished at the end."""
        stream.seek(0)
        self._log = log = open_log(stream, str(self.path))
        if self._was_deleted(log):
            raise Session.DoesNotExist
        session = session_of(self._owner, log, read_only=True)
        self.session_id, before = session.pk, session.next_seq
        whole = whole or not log.grows
        lines = log.lines() if whole else log.more(stream)
        store(session, log, continuing(session, log, lines), read_only=True)
        if log.length < session.next_seq:
            if not whole:
                return self._start(stream, whole=True)
            reason = f"has {log.length} events, fewer than the {session.next_seq} that were read of it before"
            raise LogConflict(reason, file=log.name)
        if whole:
            self._log = None
        return session.next_seq - before

    def _was_deleted(self, log: Incoming) -> bool:
        """Whether the user deleted this mirror: it does not come back by itself."""
        mine = Session.objects.filter(owner_id=self._owner.pk, log_id=storable.identifier(log.header.id))
        return not mine.filter(deleted_at=None).exists() and mine.filter(kind=Session.Kind.MIRROR).exists()

    # -- waiting ---------------------------------------------------------------------------------

    @property
    def _has_tail(self) -> bool:
        return self._log is not None and self._mark is not None and self._log.offset < self._mark.size

    def _wait(self, mark: Mark) -> int:
        """What the writer's silence tells; returns how many events that adds."""
        log, quiet = self._log, time.time() - mark.time_ns / 1e9
        if log is None:
            return 0
        if log.patience is not None and quiet >= log.patience:
            with transaction.atomic():
                session = Session.objects.select_for_update(no_key=True).get(pk=self.session_id)
                before = session.next_seq
                store(session, log, log.settle(), read_only=True)
            return session.next_seq - before
        if self._has_tail and quiet >= _QUIET_SECONDS:
            with self.path.open("rb") as stream, transaction.atomic():
                return self._start(stream, whole=True)
        return 0

    # -- notes -----------------------------------------------------------------------------------

    def _note(self, mark: Mark) -> None:
        """Leave with the session which state of the file it shows."""
        self._put({"path": storable.text(str(self.path)), **mark.as_json()})

    def _refuse(self, refusal: LogRefused, took: float) -> None:
        self.refusal, self._log = refusal, None
        self._rest_until = time.monotonic() + max(1.0, _REST * took)
        if self.session_id:
            said = {"code": refusal.code, "message": storable.text(str(refusal))}
            self._put({"path": storable.text(str(self.path)), "refused": said})

    def _put(self, mirror: dict[str, Any]) -> None:
        session = Session.objects.filter(pk=self.session_id).first()
        if session is not None:
            session.settings = {**session.settings, "mirror": mirror}
            session.save(update_fields=["settings"])

    def _remember_seam(self, stream: BinaryIO) -> None:
        if self._log is not None:
            start = max(0, self._log.offset - _SEAM_BYTES)
            stream.seek(start)
            self._seam = stream.read(self._log.offset - start)
