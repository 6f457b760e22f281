"""Figures and states in words, as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from .text import line


def duration(ms: int) -> str:
    """`8 ms`, `0.9 s`, `41 s`, `3 min 5 s`, `2 h 4 min`."""
    ms = max(ms, 0)
    if ms < 100:
        return f"{ms} ms"
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def tokens(count: int) -> str:
    """`880`, `12.4k`, `1.2M`."""
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1000:.1f}".removesuffix(".0") + "k"
    return f"{count / 1_000_000:.1f}".removesuffix(".0") + "M"


def dollars(amount: float) -> str:
    """`$12.34`, `$0.012`, `under $0.001`."""
    if 0 < amount < 0.001:
        return "under $0.001"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.3f}"


def plural(count: int, noun: str) -> str:
    """`1 side`, `2 sides`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def moment(ms: int) -> datetime:
    """The time in the zone of the page; a value out of the calendar's range becomes its nearest end."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(timezone.get_current_timezone())
    except (OverflowError, ValueError, OSError):
        return datetime(9999, 1, 1, tzinfo=UTC) if ms > 0 else datetime(1970, 1, 1, tzinfo=UTC)


def cached_share(usage: Mapping[str, int]) -> int | None:
    """Percent of the input that was read from the cache, or None where nothing was sent."""
    cached = usage.get("cacheReadTokens", 0)
    sent = usage.get("inputTokens", 0) + usage.get("cacheWriteTokens", 0) + cached
    return int(100 * cached / sent) if sent else None


def usage_total(usage: Mapping[str, int]) -> int:
    """Everything that one request put into the context: input, cached or not, and output."""
    return sum(usage.get(k, 0) for k in ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens"))


def outcome(reason: Mapping[str, Any]) -> tuple[str, str]:
    """What happened to a turn, and what is safe or to do; two empty strings for a completed one."""
    match reason.get("kind"):
        case "completed":
            return "", ""
        case "aborted":
            return _aborted(reason.get("reason") or {}), "What was written so far is kept."
        case "error":
            return _failed(reason.get("error") or {})
        case "max-tokens":
            return "The answer reached the model’s length limit.", "Send “continue” to let it go on."
        case "interrupted":
            return (
                "The server stopped during this turn.",
                "What was written so far is kept, and nothing was sent twice.",
            )
        case "blocked":
            return "This turn was blocked before it started.", "Nothing was sent to the model."
        case other:
            return f"This turn ended early ({line(str(other), 60)}).", ""


def _aborted(by: Mapping[str, Any]) -> str:
    match by.get("kind"):
        case "user" | "legacy" | None:
            return "Stopped by you."
        case "parent":
            return "Stopped together with its parent."
        case "hook":
            return f"Stopped by a hook: {line(str(by.get('reason', '')))}"
        case "disposed":
            return "Stopped because the session was closed."
        case other:
            return f"Stopped ({line(str(other), 60)})."


def _failed(failure: Mapping[str, Any]) -> tuple[str, str]:
    message = line(str(failure.get("message") or "no reason was given"), 600)
    return (
        f"The turn failed: {message}",
        "Your message is in the session. Nothing was lost; try again when this is fixed.",
    )


def status(state: str, turn: int | None) -> str:
    """What a session is doing, as its status line says it."""
    if state == "running":
        return f"Turn {turn} is running"
    if state == "waiting":
        return f"Turn {turn} waits for you"
    return "Ready"
