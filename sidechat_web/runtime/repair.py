"""Closing turns whose runner is gone, so that every session is readable, sendable and forkable again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from django.db import transaction
from django.db.models import F

from sidechat_web.core import events as ev
from sidechat_web.core import repair
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Session

from . import approvals, compaction, hooks, injections, live


def abandoned(alive: Collection[str]) -> list[Session]:
    """Sessions of ours with an open turn that none of the `alive` runners runs."""
    open_ones = Session.objects.filter(open_turn__isnull=False, deleted_at=None, read_only=False)
    return list(open_ones.filter(stable__gte=F("foreign_length")).exclude(runner__in=alive))


def repair_abandoned(alive: Collection[str]) -> list[Session]:
    """Close every abandoned turn, but those that wait for the user: these can go on, and are returned."""
    found = abandoned(alive)
    for session in found:
        if not session.waiting:
            close_abandoned(session.pk, session.runner)
    return [session for session in found if session.waiting]


def close_abandoned(session_id: str, runner: str) -> bool:
    """Close the open turn of `session_id` if `runner` (dead) still holds it; once, whoever else tries."""
    turn = _close(session_id, runner)
    if turn is None:
        return False
    hooks.after_turn(session_id, turn)
    return True


@transaction.atomic
def _close(session_id: str, runner: str) -> int | None:
    session = log.lock(session_id)
    turn = session.open_turn
    if turn is None or session.runner != runner:
        return None
    approvals.cancel_open(session)
    log.append_locked(session, compaction.unfinished(session))
    log.append_locked(session, repair.closers(_open_part(session), keep_partial_text=True))
    injections.deliver(session)
    Session.objects.filter(pk=session_id).update(runner="", stop_requested=False, unread=True)
    transaction.on_commit(lambda: live.ring(session_id, "row"))
    return turn


def _open_part(session: Session) -> Iterator[ev.Event]:
    """The open turn's events with their chunks, after the request header in force."""
    yield from reading.tail(session, 1, types=[ev.REQUEST_HEADER])
    yield from reading.events(session, after=session.stable - 1, chunks=True)
