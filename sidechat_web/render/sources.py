"""Where a user-role message came from, as its stored event says it; its text is never asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event

from .text import line


def source_of(event: Event) -> Mapping[str, Any]:
    if event.type not in (ev.USER_MESSAGE, ev.CONTEXT_MESSAGE):
        return {}
    return event.data.get("source") or {}


def origins(source: Mapping[str, Any]) -> list[str]:
    """The sides that a handback came from: one, or several that were merged into one note."""
    if source.get("plugin") != "sidechat" or source.get("form") != "handback":
        return []
    several = source.get("sessions")
    return [str(s["session"]) for s in several] if several else [str(source.get("session", ""))]


@dataclass(frozen=True, slots=True)
class Quote:
    """A reference of a user's message to what it quotes."""

    log_id: str
    seq: int
    cut: bool


def quotes(source: Mapping[str, Any]) -> list[Quote]:
    """The references of a message's quotes, in their order; another program's source may hold anything."""
    found = source.get("quotes")
    references = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [
        Quote(str(one.get("session", "")), seq, one.get("cut") is True)
        for one in references
        if isinstance(seq := one.get("seq"), int)
    ]


def summary(source: Mapping[str, Any]) -> str:
    by = line(str(source.get("plugin") or source.get("kind") or "Something"), 60)
    summary = source.get("summary")
    return f"{by}: {line(str(summary), 120)}" if summary else f"Context added by {by}."
