"""Accepted input: durable rows that start exactly once, in order, in their own session."""

from __future__ import annotations

from typing import Any

from django.db.models import Max, Min, QuerySet

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.core.events import Draft
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import QueueItem, Session


def pending(session: Session) -> QuerySet[QueueItem]:
    """What waits, in order: the user's messages and what plug-ins asked for."""
    return QueueItem.objects.filter(session=session, seq=None).order_by("position", "id")


def typed(session: Session) -> QuerySet[QueueItem]:
    """What the user typed and can still change."""
    return pending(session).filter(event_type=ev.USER_MESSAGE)


def put(session: Session, draft: Draft, *, mode: str = "queue", first: bool = False) -> QueueItem:
    """Accept a message (a `user/message` or `context/message` draft) as the last or first pending input."""
    edge = pending(session).aggregate(low=Min("position"), high=Max("position"))
    position = (edge["low"] or 0) - 1 if first else (edge["high"] or 0) + 1
    return QueueItem.objects.create(
        session=session, position=position, mode=mode, event_type=draft.type, message=draft.data
    )


def user_draft(text: str, **source: Any) -> Draft:
    """A user's message; `source` adds to where it came from."""
    return ev.user_message(new_id(), ev.text_blocks(text), {"kind": "user", **source})


def draft_of(item: QueueItem) -> Draft:
    return Draft(item.event_type, item.message, "append")


def next_for_turn(session: Session) -> QueueItem | None:
    """The input that starts the next turn."""
    return pending(session).first()


def steers(session: Session) -> list[QueueItem]:
    """What must enter the running turn before its next request."""
    return list(pending(session).filter(mode=QueueItem.Mode.STEER))


def started(item: QueueItem, seq: int) -> None:
    """Mark `item` as logged at `seq`; in the transaction that appended it."""
    item.seq = seq
    item.save(update_fields=["seq"])


def find(session: Session, item_id: str) -> QueueItem:
    """A pending item of the user's. Raises SidechatError `started` or `not_found`."""
    item = QueueItem.objects.filter(session=session, pk=item_id, event_type=ev.USER_MESSAGE).first()
    if item is None:
        raise SidechatError("no such queued message", "not_found")
    if item.seq is not None:
        raise SidechatError("this message has already started", "started")
    return item


def edit(item: QueueItem, *, text: str | None, position: int | None, mode: str | None) -> None:
    """Change a pending item; `position` is its new 0-based place among the pending ones."""
    if text is not None:
        item.message = {**item.message, "content": ev.text_blocks(text)}
    if mode is not None:
        item.mode = mode
    item.save(update_fields=["message", "mode"])
    if position is not None:
        _move(item, position)


def _move(item: QueueItem, position: int) -> None:
    others = [other for other in pending(item.session) if other.pk != item.pk]
    others.insert(max(0, min(position, len(others))), item)
    for place, other in enumerate(others):
        other.position = place
    QueueItem.objects.bulk_update(others, ["position"])


def as_json(item: QueueItem) -> dict[str, Any]:
    """`{id, mode, text, quotes?}`."""
    quotes = ev.quote_references(item.message)
    return {"id": item.pk, "mode": item.mode, "text": item.text, **({"quotes": quotes} if quotes else {})}
