"""Other programs' sessions into ours: all or nothing, in bounded memory.

A harness log is kept verbatim. Those of other programs are told anew in our own events; what could not be
kept of them stands in `settings["imported"]`, as `{"from": program, "lost": [sentence part …]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction

from sidechat_web.core.errors import LogConflict, LogUnreadable
from sidechat_web.storage.models import Session

from . import storable
from .chat_messages import ChatMessages
from .header import Header, header_of, parse_header
from .incoming import Incoming, Line, NothingYet
from .opening import open_log
from .rows import RowWriter
from .stored import header_line, stored_lines, untouched

MAX_ID_CHARACTERS: Final = 512


@transaction.atomic
def import_logs(
    owner: AbstractBaseUser, files: Iterable[tuple[str, BinaryIO]], *, read_only: bool = False
) -> list[Session]:
    """Store every log of `files` (name, bytes) or none, and return their sessions in the order of the files.

    A log that is already here adds nothing, a longer version of it extends its session. Parents and
    children find each other whatever their order, also across calls. Files without a message are passed
    over, unless there is nothing else. `read_only` sessions are mirrors: another program goes on writing
    them. Raises a LogRefused that names file, line and reason.
    """
    sessions: dict[str, Session] = {}
    empty: NothingYet | None = None
    for name, stream in files:
        try:
            log = open_log(stream, name)
        except NothingYet as nothing:
            empty = nothing
            continue
        session = session_of(owner, log, read_only=read_only)
        store(session, log, continuing(session, log, log.lines()), read_only=read_only)
        sessions[session.pk] = session
    if empty is not None and not sessions:
        raise empty
    return [Session.objects.get(pk=pk) for pk in sessions]


def session_of(owner: AbstractBaseUser, log: Incoming, *, read_only: bool) -> Session:
    """The session of `log`, locked: the one that is here, or a new and empty one."""
    if len(log.header.id) > MAX_ID_CHARACTERS:
        raise LogUnreadable(f"an id longer than {MAX_ID_CHARACTERS} characters", line=1, file=log.name)
    found = _find(owner, log)
    if found is None:
        return _create(owner, log, read_only)
    known = found.settings.get("imported", {})
    if not log.header_line and known.get("from") != log.program:
        raise LogConflict("a session with this id from another program is already here", line=1, file=log.name)
    log.recall(known)
    return found


def store(session: Session, log: Incoming, lines: Iterable[Line], *, read_only: bool) -> None:
    """Append `lines` to the locked session, and note what became of the log."""
    before, known = session.next_seq, session.settings.get("imported", {})
    RowWriter(session).write(lines)
    if known.get("from") == log.program and (session.next_seq > before or session.next_seq == 0):
        imported = {"from": log.program, "lost": [storable.text(what) for what in log.lost], **log.known()}
        session.settings = {**session.settings, "imported": imported}
        session.save(update_fields=["settings"])
    if read_only and not session.read_only and untouched(session):
        session.read_only, session.kind = True, Session.Kind.MIRROR
        session.save(update_fields=["read_only", "kind"])


def continuing(session: Session, log: Incoming, lines: Iterator[Line]) -> Iterator[Line]:
    """Those of `lines`, all lines of `log`, that continue the session. Raises LogConflict where histories differ."""
    if session.next_seq == 0:
        yield from lines
        return
    if log.header_line and header_of(parse_header(header_line(session))) != log.header:
        raise LogConflict("a session with this id and another header is already here", line=1, file=log.name)
    for here in stored_lines(session):
        line = next(lines, None)
        if line is None:
            return  # an earlier version of what is here
        if line.text not in (here.text, here.exported()):
            raise _conflict(session, log, line)
    for line in lines:
        if not untouched(session):
            raise _conflict(session, log, line)
        yield line


def _conflict(session: Session, log: Incoming, line: Line) -> LogConflict:
    here = line.first >= session.foreign_length
    reason = "the session with this id was continued here" if here else "not the history of the session with this id"
    return LogConflict(reason, line=line.number, file=log.name)


def _find(owner: AbstractBaseUser, log: Incoming) -> Session | None:
    """The owner's session with this log, locked."""
    mine = Session.objects.select_for_update(no_key=True).filter(owner_id=owner.pk, deleted_at=None)
    if isinstance(log, ChatMessages) and not log.named:
        alike = mine.filter(log_id__startswith=log.opening).order_by("-next_seq")
        found = next((session for session in alike if _same_history(session, log)), None)
        log.recall({})
        return found
    return mine.filter(log_id=storable.identifier(log.header.id)).first()


def _same_history(session: Session, log: ChatMessages) -> bool:
    """Whether one of the two goes on where the other ends."""
    log.recall(session.settings.get("imported", {}))
    try:
        for _ in continuing(session, log, log.lines()):
            pass
    except LogConflict:
        return False
    return True


def _create(owner: AbstractBaseUser, log: Incoming, read_only: bool) -> Session:
    header = log.header
    session = Session(
        owner_id=owner.pk,
        log_id=storable.identifier(header.id),
        kind=_kind(header, read_only),
        header_line=log.header_line,
        created_at=header.created_at,
        updated_at=header.created_at,
        cwd=None if header.cwd is None else storable.text(header.cwd),
        parent_log_id=None if header.parent_session is None else storable.identifier(header.parent_session),
        seed_length=header.seed_length,
        origin=header.origin,
        delegation_depth=min(header.delegation_depth, 2**31 - 1),
        read_only=read_only,
        imported=True,
        settings={"cacheKey": storable.identifier(header.id), "imported": {"from": log.program, "lost": []}},
    )
    try:
        with transaction.atomic():
            session.save(force_insert=True)
    except IntegrityError:
        raise LogConflict("another import of this log is running", line=1, file=log.name) from None
    _link(session)
    return session


def _kind(header: Header, read_only: bool) -> str:
    if read_only:
        return Session.Kind.MIRROR
    return Session.Kind.FORK if header.parent_session is not None else Session.Kind.MAIN


def _link(session: Session) -> None:
    """Join the session with its parent and with children that came before it."""
    living = Session.objects.filter(owner_id=session.owner_id, deleted_at=None)
    if session.parent_log_id is not None:
        _adopt(living.filter(log_id=session.parent_log_id).first(), session)
    for child in living.filter(parent=None, parent_log_id=session.log_id):
        _adopt(session, child)


def _adopt(parent: Session | None, child: Session) -> None:
    """Make `parent` the parent of `child`, unless it descends from it: headers may say anything."""
    ancestor = parent
    while ancestor is not None:
        if ancestor.pk == child.pk:
            return
        ancestor = ancestor.parent
    if parent is not None:
        child.parent = parent
        child.save(update_fields=["parent"])
