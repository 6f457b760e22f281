"""Where a user-role message came from, as its stored event says it; its text is never asked."""

from __future__ import annotations

from collections.abc import Mapping
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


def summary(source: Mapping[str, Any]) -> str:
    by = line(str(source.get("plugin") or source.get("kind") or "Something"), 60)
    summary = source.get("summary")
    return f"{by}: {line(str(summary), 120)}" if summary else f"Context added by {by}."
