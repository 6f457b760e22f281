"""Context messages on their way into a session: durable, appended exactly once, never inside a tool round.

Where no turn is open the message is appended at once. Otherwise it waits, and the transaction that ends
the turn appends it, before any queued input starts. `into_turn` lets it enter a running turn before
that turn's next request.
"""

from __future__ import annotations

from typing import Any

from sidechat_web.core.events import CONTEXT_MESSAGE, Draft
from sidechat_web.storage import log
from sidechat_web.storage.models import Injection, Session

from .adoption import adopt


def inject(session: Session, draft: Draft, *, key: str, into_turn: bool = False) -> Injection:
    """Bring a `context/message` into `session`, whose row the running transaction has locked.

    `key` names the delivery: the same key again returns the same injection and appends nothing.
    """
    assert draft.type == CONTEXT_MESSAGE
    found, fresh = Injection.objects.get_or_create(
        key=key, defaults={"session": session, "message": draft.data, "into_turn": into_turn}
    )
    if fresh and (session.open_turn is None or session.left_open):
        adopt(session)
        deliver(session)
        found.refresh_from_db()
    return found


def deliver(session: Session, *, into_turn_only: bool = False) -> list[Any]:
    """Append what waits for the locked `session`, oldest first; returns the events.

    Call it where no turn is open, or with `into_turn_only` right before a running turn's next request.
    """
    pending = Injection.objects.select_for_update().filter(session=session, state=Injection.State.PENDING)
    waiting = pending.order_by("created_at", "id")
    if into_turn_only:
        waiting = waiting.filter(into_turn=True)
    out = []
    for injection in waiting:
        [event] = log.append_locked(session, [Draft(CONTEXT_MESSAGE, injection.message, "append")])
        injection.state, injection.seq = Injection.State.DELIVERED, event.seq
        injection.save(update_fields=["state", "seq"])
        out.append(event)
    return out


def cancel(injection: Injection) -> bool:
    """Withdraw what was not delivered yet; False where it was."""
    pending = Injection.objects.filter(pk=injection.pk, state=Injection.State.PENDING)
    return pending.update(state=Injection.State.CANCELLED) == 1
