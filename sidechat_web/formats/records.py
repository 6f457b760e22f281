"""JSON that other programs wrote: what was expected, or nothing. Never raises."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sidechat_web.core import jsontext
from sidechat_web.core.events import Block, Json, text_blocks

_EPOCH_MS_END = 253_402_300_800_000  # year 10000


def record(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def records(value: Json) -> list[dict[str, Any]]:
    """The members of a list that are objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def count(value: Json) -> int:
    return value if type(value) is int and 0 < value < 2**53 else 0


def time_ms(value: Json) -> int | None:
    """Epoch ms of an ISO 8601 time, or of epoch seconds or milliseconds."""
    if type(value) in (int, float) and 0 < value < _EPOCH_MS_END:
        return int(value if value > 10**11 else value * 1000)
    try:
        return max(0, int(datetime.fromisoformat(string(value)).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None


def blocks(text: str) -> list[Block]:
    """One text block; none for no text."""
    return text_blocks(text) if text else []


def arguments(value: Json) -> str:
    """A tool call's arguments as text."""
    return value if isinstance(value, str) else jsontext.dumps({} if value is None else value)
