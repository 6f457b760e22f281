"""Foreign logs into sessions: verbatim rows, all or nothing, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction

from sidechat_web.core.errors import LogConflict, LogUnreadable
from sidechat_web.storage.models import Session

from . import storable
from .dsh import DshLog, Line
from .header import Header, header_of, parse_header
from .rows import RowWriter
from .stored import header_line, stored_lines, untouched

MAX_ID_CHARACTERS: Final = 512


@transaction.atomic
def import_logs(
    owner: AbstractBaseUser, files: Iterable[tuple[str, BinaryIO]], *, read_only: bool = False
) -> list[Session]:
    """Store every log of `files` (name, bytes) or none, and return their sessions in the order of the files.

    A log that is already here adds nothing, a longer version of it extends its session. Parents and
    children find each other whatever their order, also across calls. `read_only` sessions are mirrors:
    another program goes on writing them. Raises a LogRefused that names file, line and reason.
    """
    sessions: dict[str, Session] = {}
    for name, stream in files:
        session = _import(owner, DshLog(stream, name), read_only)
        sessions[session.pk] = session
    return [Session.objects.get(pk=pk) for pk in sessions]


def _import(owner: AbstractBaseUser, log: DshLog, read_only: bool) -> Session:
    if len(log.header.id) > MAX_ID_CHARACTERS:
        raise LogUnreadable(f"an id longer than {MAX_ID_CHARACTERS} characters", line=1, file=log.name)
    found = _find(owner, log.header.id)
    session = _create(owner, log, read_only) if found is None else found
    lines = log.lines() if found is None else _new_lines(session, log)
    RowWriter(session).write(lines)
    if read_only and not session.read_only and untouched(session):
        session.read_only, session.kind = True, Session.Kind.MIRROR
        session.save(update_fields=["read_only", "kind"])
    return session


def _find(owner: AbstractBaseUser, log_id: str) -> Session | None:
    """The owner's session with this log, locked."""
    mine = Session.objects.select_for_update(no_key=True).filter(owner_id=owner.pk, deleted_at=None)
    return mine.filter(log_id=storable.identifier(log_id)).first()


def _create(owner: AbstractBaseUser, log: DshLog, read_only: bool) -> Session:
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
        settings={"cacheKey": storable.identifier(header.id)},
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


def _new_lines(session: Session, log: DshLog) -> Iterator[Line]:
    """The lines of `log` that continue the session. Raises LogConflict where the two histories differ."""
    if header_of(parse_header(header_line(session))) != log.header:
        raise LogConflict("a session with this id and another header is already here", line=1, file=log.name)
    lines = log.lines()
    for here in stored_lines(session):
        line = next(lines, None)
        if line is None:
            return  # an earlier version of what is here
        if line.text not in (here.text, here.exported()):
            raise LogConflict("not the history of the session with this id", line=line.number, file=log.name)
    for line in lines:
        if not untouched(session):
            raise LogConflict("the session with this id was continued here", line=line.number, file=log.name)
        yield line
