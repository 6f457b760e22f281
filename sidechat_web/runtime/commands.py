"""What a user can do to a session: short sync use cases, one transaction each.

Each leaves durable rows and rings a bell after the commit. Refusals are SidechatError with a stable code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from sidechat_web.core import boundary
from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.core.events import Draft
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id, now_ms
from sidechat_web.storage.models import QueueItem, Segment, Session

from . import dispatch, headers, hooks, live, queue
from .providers import catalog
from .quotes import Quote, Quoted, compose
from .tools import territory

MAX_TEXT_CHARS = 1_000_000
MAX_TITLE_CHARS = 200


def ring_after_commit(session_id: str, topic: live.Topic) -> None:
    transaction.on_commit(lambda: live.ring(session_id, topic))


@transaction.atomic
def create(
    owner: AbstractBaseUser, *, title: str = "", model: str = "", system: str | None = None, cwd: str | None = None
) -> Session:
    """A new, empty session; model, system prompt and the real path of `cwd` are pinned now.

    Raises NoModel, and SidechatError `bad_cwd`.
    """
    session_id = new_id()
    cwd = territory.workspace(owner, cwd) if cwd else None
    settings = {"header": headers.pinned(model, system, cwd), "cacheKey": session_id}
    session = Session.objects.create(id=session_id, log_id=session_id, owner_id=owner.pk, cwd=cwd, settings=settings)
    if title:
        _title(session, title)
    ring_after_commit(session.pk, "row")
    return session


@transaction.atomic
def say(session: Session, text: str, mode: str = "queue", *, quotes: Sequence[Quote] = ()) -> QueueItem:
    """Accept a message: durable when this returns. It starts a turn, waits for one, or steers the running one.

    With `quotes` the text may be blank.
    """
    return _accept(session, compose(quotes, text) if quotes else Quoted(text, []), mode)


def _accept(session: Session, said: Quoted, mode: str = "queue") -> QueueItem:
    session = lock_writable(session)
    check_text(said.text)
    if mode not in QueueItem.Mode.values:
        raise SidechatError(f"mode must be queue or steer, not {mode!r}", "bad_mode")
    catalog.provider_of(headers.of(session)["config"])
    source = {"quotes": said.references} if said.references else {}
    item = queue.put(session, queue.user_draft(said.text, **source), mode=mode)
    Session.objects.filter(pk=session.pk).update(updated_at=max(now_ms(), session.updated_at))
    dispatch.enqueue(session.pk)
    return item


@transaction.atomic
def stop(session: Session) -> None:
    """Ask the running turn to end; what was streamed stays, the queue stays. No running turn: nothing to do."""
    Session.objects.filter(pk=session.pk, open_turn__isnull=False).update(stop_requested=True)
    ring_after_commit(session.pk, "queue")


@transaction.atomic
def compact(session: Session) -> None:
    """Ask for a compaction: done now where no turn is open, else when it has ended."""
    session = lock_writable(session)
    Session.objects.filter(pk=session.pk).update(compact_requested=True)
    dispatch.enqueue(session.pk)


def continue_(session: Session) -> QueueItem:
    """Go on after an interruption: an ordinary user message."""
    return say(session, "Continue.")


@transaction.atomic
def fork(
    session: Session,
    *,
    owner: AbstractBaseUser | None = None,
    at_seq: int | None = None,
    title: str = "",
    model: str = "",
    text: str | None = None,
    quotes: Sequence[Quote] = (),
) -> Session:
    """An ordinary session from `session`'s stable prefix, or from the boundary at the message `at_seq`.

    Its `owner` is whoever forks; by default the owner of `session`.
    """
    parent = log.lock(session.pk)
    cut = boundary_of(parent, at_seq)
    drafts = hooks.prelude(parent, cut)
    child = branch(parent, cut, kind=Session.Kind.FORK, drafts=drafts, owner=owner, title=title, model=model)
    if text is not None or quotes:
        say(child, text or "", quotes=quotes)
    return child


@transaction.atomic
def retry(session: Session, seq: int, text: str | None = None, *, owner: AbstractBaseUser | None = None) -> Session:
    """An ordinary fork before the turn of the user message at `seq`, with its text (or `text`) sent."""
    parent = log.lock(session.pk)
    said = reading.event(parent, seq)
    if said is None or said.type != ev.USER_MESSAGE:
        raise SidechatError(f"event {seq} is not a user message", "bad_seq")
    start = reading.tail(parent, 1, before=seq, types=[ev.TURN_START])
    cut = start[0].seq if start else 0
    child = branch(parent, cut, kind=Session.Kind.FORK, drafts=hooks.prelude(parent, cut), owner=owner)
    _accept(child, Quoted(ev.text_of(said.data) if text is None else text, ev.quote_references(said.data)))
    return child


def boundary_of(parent: Session, at_seq: int | None) -> int:
    """The prefix length that a fork of `parent` takes. Raises TurnOpen for a message of the open turn."""
    if at_seq is None:
        return boundary.default(parent.head)
    return boundary.at_message(parent.head, at_seq, reading.next_turn_start(parent, at_seq))


def branch(
    parent: Session,
    cut: int,
    *,
    kind: str,
    drafts: list[Draft],
    owner: AbstractBaseUser | None = None,
    title: str = "",
    model: str = "",
) -> Session:
    """A session whose log starts with `parent`'s first `cut` events, shared by reference, and goes on with `drafts`.

    The transaction must hold `parent`'s lock. The child's header is that of the parent's last request
    before the boundary, or the parent's pinned one. Its owner is the parent's, unless another one is given.
    """
    header = headers.logged(parent, before=cut) or headers.of(parent)
    if model:
        header = {**header, "config": catalog.config(model)}
    session_id = new_id()
    child = Session(
        id=session_id,
        log_id=session_id,
        owner_id=owner.pk if owner else parent.owner_id,
        kind=kind,
        parent=parent,
        parent_log_id=parent.log_id,
        seed_length=cut,
        base=cut,
        cwd=parent.cwd,
        settings={"header": header, "cacheKey": parent.settings.get("cacheKey", parent.log_id)},
        **_inherited_head(parent, cut),
    )
    child.save(force_insert=True)
    Segment.objects.bulk_create(
        Segment(session=child, origin_id=span.origin, start=span.start, stop=min(span.stop, cut))
        for span in reading.spans(parent)
        if span.start < min(span.stop, cut)
    )
    log.append_locked(child, drafts)
    if title:
        _title(child, title)
    ring_after_commit(child.pk, "row")
    return child


@transaction.atomic
def rename(session: Session, title: str) -> None:
    """Name the session: an event of its log, or beside it where another program writes the log."""
    session = log.lock(session.pk)
    if session.read_only:
        Session.objects.filter(pk=session.pk).update(title=_checked_title(title))
    else:
        _title(session, title)
    ring_after_commit(session.pk, "row")


@transaction.atomic
def set_model(session: Session, model: str) -> None:
    """The model of the next request; logged as a header change when that request is made."""
    session = log.lock(session.pk)
    header = headers.of(session)
    session.settings["header"] = {**header, "config": catalog.config(model)}
    session.save(update_fields=["settings"])
    ring_after_commit(session.pk, "row")


def set_flags(
    session: Session, *, archived: bool | None = None, pinned: bool | None = None, unread: bool | None = None
) -> None:
    """Presentation state, outside the record."""
    wanted = {"archived": archived, "pinned": pinned, "unread": unread}
    fields = {name: value for name, value in wanted.items() if value is not None}
    if fields:
        Session.objects.filter(pk=session.pk).update(**fields)
        live.ring(session.pk, "row")


@transaction.atomic
def edit_queued(
    session: Session, item_id: str, *, text: str | None = None, position: int | None = None, mode: str | None = None
) -> QueueItem:
    session = lock_writable(session)
    item = queue.find(session, item_id)
    if text is not None:
        check_text(text)
    if mode is not None and mode not in QueueItem.Mode.values:
        raise SidechatError(f"mode must be queue or steer, not {mode!r}", "bad_mode")
    queue.edit(item, text=text, position=position, mode=mode)
    ring_after_commit(session.pk, "queue")
    return item


@transaction.atomic
def remove_queued(session: Session, item_id: str) -> QueueItem:
    """Take a pending message back; returns it, so that its text can return to the composer."""
    item = queue.find(lock_writable(session), item_id)
    QueueItem.objects.filter(pk=item.pk).delete()
    ring_after_commit(session.pk, "queue")
    return item


@transaction.atomic
def delete(session: Session, sides: Literal["delete", "keep"] | None = None) -> dict[str, list[str]]:
    """Tombstone `session`, and its sides at any depth where asked. Raises SidechatError `has_sides` to ask.

    Sides that other users opened are theirs, and are kept.
    """
    session = log.lock(session.pk)
    below = _sides_below(session)
    if below and sides is None:
        raise SidechatError(f"this session has {len(below)} side sessions: delete them too, or keep them?", "has_sides")
    doomed = [session, *below] if sides == "delete" else [session]
    for one in doomed:
        hooks.each(hooks.deleted, one)
    _tombstone(doomed)
    direct = Session.objects.filter(parent=session, kind=Session.Kind.SIDE, deleted_at=None)
    kept = list(direct.exclude(pk__in=[one.pk for one in doomed]).values_list("pk", flat=True))
    for one in doomed:
        ring_after_commit(one.pk, "gone")
    for pk in kept:
        ring_after_commit(pk, "row")
    return {"deleted": [one.pk for one in doomed], "kept": kept}


def lock_writable(session: Session) -> Session:
    """The locked row. Raises SidechatError `read_only` where another program owns the log."""
    locked = log.lock(session.pk)
    if locked.read_only:
        raise SidechatError("this session is mirrored from another program and cannot be written here", "read_only")
    return locked


def check_text(text: str) -> None:
    if not text.strip():
        raise SidechatError("the message is empty", "empty_text")
    if len(text) > MAX_TEXT_CHARS:
        raise SidechatError(f"the message has {len(text)} characters; at most {MAX_TEXT_CHARS} are taken", "too_long")


def _title(session: Session, title: str) -> None:
    log.append_locked(session, [ev.session_title(_checked_title(title), [], {"kind": "user"})])


def _checked_title(title: str) -> str:
    title = " ".join(title.split())[:MAX_TITLE_CHARS]
    if not title:
        raise SidechatError("the title is empty", "empty_text")
    return title


def _inherited_head(parent: Session, cut: int) -> dict[str, Any]:
    """Head and context size of a fork at `cut`; what the child has spent itself is nothing."""
    if cut == 0:
        return {}
    started = reading.tail(parent, 1, before=cut, types=[ev.TURN_START])
    ended = reading.tail(parent, 1, before=cut, types=[ev.TURN_END])
    answered = reading.tail(parent, 1, before=cut, types=[ev.ASSISTANT_MESSAGE])
    last = reading.event(parent, cut - 1)
    usage = answered[0].data.get("usage") if answered else None
    reason = ended[0].data.get("reason") if ended and isinstance(ended[0].data, dict) else None
    return {
        "next_seq": cut,
        "stable": cut,
        "last_time": last.time if last else 0,
        "last_turn": (started[0].turn or 0) if started else 0,
        "last_reason": reason,
        "context_used": log.context_tokens(usage or {}),
    }


def _sides_below(session: Session) -> list[Session]:
    """The owner's own sides below `session` at any depth, locked, each level by id."""
    sides = Session.objects.select_for_update(no_key=True).filter(owner_id=session.owner_id, deleted_at=None)
    found, level = [], [session]
    while level:
        level = list(sides.filter(kind=Session.Kind.SIDE, parent__in=level).order_by("pk"))
        found += level
    return found


def _tombstone(doomed: list[Session]) -> None:
    ids = [one.pk for one in doomed]
    Session.objects.filter(pk__in=ids).update(deleted_at=now_ms(), open_turn=None, stop_requested=True)
    QueueItem.objects.filter(session__in=ids, seq=None).delete()
    origins = set(Segment.objects.filter(session__in=ids).values_list("origin_id", flat=True))
    log.erase_unreferenced(
        {*ids, *Session.objects.filter(pk__in=origins).exclude(deleted_at=None).values_list("pk", flat=True)}
    )
