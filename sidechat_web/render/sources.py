"""Where a user-role message came from, as its stored event says it; its text is never asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event

from .text import line

_USER_ROLE: Final = (ev.USER_MESSAGE, ev.CONTEXT_MESSAGE)


def source_of(event: Event) -> Mapping[str, Any]:
    if event.type not in _USER_ROLE:
        return {}
    return event.data.get("source") or {}


def origins(source: Mapping[str, Any]) -> list[str]:
    """The sides that a handback came from: one, or several that were merged into one note."""
    if source.get("plugin") != ev.OWN_PLUGIN or source.get("form") != "handback":
        return []
    several = source.get("sessions")
    return [str(s["session"]) for s in several] if several else [str(source.get("session", ""))]


@dataclass(frozen=True, slots=True)
class Quote:
    """A reference of a user's message to what it quotes."""

    log_id: str
    seq: int
    cut: bool


def quotes(event: Event) -> list[Quote]:
    """What a user-role message quotes, in order."""
    if event.type not in _USER_ROLE:
        return []
    return [
        Quote(str(one.get("session", "")), seq, one.get("cut") is True)
        for one in ev.quote_references(event.data)
        if isinstance(seq := one.get("seq"), int)
    ]


def summary(source: Mapping[str, Any]) -> str:
    by = line(str(source.get("plugin") or source.get("kind") or "Something"), 60)
    summary = source.get("summary")
    return f"{by}: {line(str(summary), 120)}" if summary else f"Context added by {by}."
