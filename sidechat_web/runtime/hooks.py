"""Where plug-ins take part: preludes of a fork, gates before a tool runs, the end of a turn, recovery, services.

A plug-in registers plain functions when its app is ready. The core of the runtime knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from sidechat_web.core.events import Draft
from sidechat_web.storage.models import Session

ForkPrelude = Callable[[Session, int], list[Draft]]  # (parent, boundary) → the fork's first own events
TurnEnded = Callable[[str, int], None]  # (session id, turn), in the database thread, after the commit
Recover = Callable[[], None]  # once when a runner starts, and then now and again; idempotent
Service = Callable[
    [], Coroutine[Any, Any, None]
]  # runs beside a runner, from its start until it is cancelled at its end
Deleted = Callable[[Session], None]  # inside the transaction that tombstones the session

fork_preludes: list[ForkPrelude] = []
turn_ended: list[TurnEnded] = []
recover: list[Recover] = []
deleted: list[Deleted] = []
services: list[Service] = []


def after_turn(session_id: str, turn: int) -> None:
    for hook in turn_ended:
        hook(session_id, turn)


def prelude(parent: Session, boundary: int) -> list[Draft]:
    return [draft for hook in fork_preludes for draft in hook(parent, boundary)]


def each(hooks: list[Callable[..., None]], *args: Any) -> None:
    for hook in hooks:
        hook(*args)
