"""What a feed reads of the store: sync use cases, one crossing each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from sidechat_web.core.events import STEP_START, Event
from sidechat_web.runtime import queue
from sidechat_web.runtime.live import Delta, Topic
from sidechat_web.runtime.sidechat import merge_back
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .blocks import streamed

PAGE_EVENTS: Final = 500


@dataclass(frozen=True, slots=True)
class State:
    """What a status frame says: `reason` is why the last turn ended, None while one is open."""

    status: str
    turn: int | None
    reason: dict[str, Any] | None

    @classmethod
    def of(cls, session: Session) -> State:
        return cls(session.status, session.open_turn, None if session.open_turn else session.last_reason)


@dataclass(frozen=True, slots=True)
class Face:
    """What else a pane shows of a session's row."""

    title: str
    archived: bool
    config: dict[str, Any]
    promoted: bool

    @classmethod
    def of(cls, session: Session) -> Face:
        config = session.settings.get("header", {}).get("config", {})
        return cls(session.title, session.archived, config, bool(session.settings.get("promoted")))


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a session's row stood; another mark means that there is something to read."""

    next_seq: int
    updated_at: int
    open_turn: int | None

    def same_events(self, other: Mark) -> bool:
        """Whether nothing but stream chunks was appended in between."""
        return (self.updated_at, self.open_turn) == (other.updated_at, other.open_turn)


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands in the log after a cursor; `head` is the seq up to which it was read, inclusive."""

    session: Session
    head: int
    state: State
    mark: Mark
    face: Face
    events: list[Event] = field(default_factory=list)
    more: bool = False
    step: tuple[int, int] = (0, 0)  # the open one
    streamed: list[Delta] = field(default_factory=list)
    queue: list[dict[str, Any]] | None = None
    merges: list[dict[str, Any]] | None = None


def head(session_id: str) -> Reading | None:
    """Where the log stands, the open turn's blocks as far as they are flushed, and what waits. None when gone."""
    session = _living(session_id)
    if session is None:
        return None
    return Reading(
        **_place(session, session.next_seq - 1),
        step=_open_step(session),
        streamed=_open_blocks(session),
        queue=_queue(session),
        merges=merge_back.merges_of(session),
    )


def read(
    session_id: str, after: int, topics: Collection[Topic], *, chunks: bool = False, blocks: bool = False
) -> Reading | None:
    """The log after `after`, and what `topics` name; with `blocks` also the text of the open blocks. None when gone."""
    session = _living(session_id)
    if session is None:
        return None
    found = page(session, after, chunks=chunks, stop=session.next_seq)
    more = len(found) == PAGE_EVENTS
    return Reading(
        **_place(session, found[-1].seq if more else session.next_seq - 1),
        events=found,
        more=more,
        streamed=_open_blocks(session) if blocks or session.read_only else [],  # a mirror's stream is in its log alone
        queue=_queue(session) if "queue" in topics else None,
        merges=merge_back.merges_of(session) if "merges" in topics else None,
    )


def page(session: Session, after: int, *, chunks: bool, stop: int) -> list[Event]:
    """At most PAGE_EVENTS events with `after < seq < stop`; fewer mean that there are no more."""
    return list(islice(reading.events(session, after=after, stop=stop, chunks=chunks), PAGE_EVENTS))


def replay(session_id: str, after: int, until: int, *, chunks: bool) -> list[Event]:
    """A page of the events with `after < seq <= until`."""
    return page(Session.objects.get(pk=session_id), after, chunks=chunks, stop=until + 1)


def marks(session_ids: Collection[str]) -> dict[str, Mark]:
    """The marks of those sessions that still exist."""
    rows = Session.objects.filter(pk__in=session_ids, deleted_at=None)
    return {
        pk: Mark(next_seq, updated_at, open_turn)
        for pk, next_seq, updated_at, open_turn in rows.values_list("pk", "next_seq", "updated_at", "open_turn")
    }


def parents(session_ids: Collection[str], among: Collection[str]) -> set[str]:
    """The parents of those sides, living or deleted, as far as they are `among` these."""
    sides = Session.objects.filter(pk__in=session_ids, parent_id__in=among, kind=Session.Kind.SIDE)
    return {str(parent) for parent in sides.values_list("parent_id", flat=True)}


def _living(session_id: str) -> Session | None:
    return Session.objects.filter(pk=session_id, deleted_at=None).first()


def _place(session: Session, seq: int) -> dict[str, Any]:
    mark = Mark(session.next_seq, session.updated_at, session.open_turn)
    return {"session": session, "head": seq, "state": State.of(session), "mark": mark, "face": Face.of(session)}


def _open_step(session: Session) -> tuple[int, int]:
    started = reading.tail(session, 1, types=[STEP_START]) if session.open_turn is not None else []
    return (started[0].data["turn"], started[0].data["step"]) if started else (0, 0)


def _open_blocks(session: Session) -> list[Delta]:
    if session.open_turn is None:
        return []
    started = reading.tail(session, 1, types=[STEP_START])
    after = started[0].seq if started else session.stable - 1
    return streamed(reading.events(session, after=after, chunks=True))


def _queue(session: Session) -> list[dict[str, Any]]:
    return [queue.as_json(item) for item in queue.typed(session)]
