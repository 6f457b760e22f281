"""Tool calls and their results as a card shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.utils.safestring import mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer

from sidechat_web.core.events import Event

from . import words
from .items import ToolCard
from .text import line, plain

MOST_SHOWN: Final = 40_000  # characters of a result on the page; the log keeps all of it
_SUBJECTS: Final = ("path", "file_path", "file", "pattern", "command", "query", "url", "name")


def subject(arguments: str) -> str:
    """What a call is about, on one line: its path, pattern or command, else its first text."""
    values = _parsed(arguments)
    if not isinstance(values, dict):
        return line(arguments, 100)
    named = [values[k] for k in _SUBJECTS if isinstance(values.get(k), str)]
    texts = named or [v for v in values.values() if isinstance(v, str)]
    return line(texts[0], 100) if texts else ""


def pretty(arguments: str) -> str:
    """The arguments indented where they are JSON, else as the model wrote them."""
    values = _parsed(arguments)
    return plain(arguments if values is None else json.dumps(values, indent=2, ensure_ascii=False))


def settle(card: ToolCard, event: Event) -> None:
    """Put a `tool/result` into its card."""
    block = event.data["message"]["content"][0]
    failed = bool(block.get("isError"))
    card.result = _cut(plain("".join(b.get("text", "") for b in block["content"])))
    meta = event.data.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    card.state, card.approval = "failed" if failed else "done", ""
    card.note = " · ".join(["failed"] * failed + _took(card, event, meta))
    if isinstance(meta.get("diff"), str):
        _show_diff(card, plain(meta["diff"]))


def _took(card: ToolCard, event: Event, meta: Mapping[str, Any]) -> list[str]:
    ms = meta.get("durationMs")
    if isinstance(ms, int):
        return [words.duration(ms)]
    return [words.duration(event.time - card.started)] if card.started is not None else []


def attachment_name(block: Mapping[str, Any]) -> str:
    attachment = block.get("attachment") or {}
    return line(str(attachment.get("name") or attachment.get("mediaType") or "image"), 80)


def _show_diff(card: ToolCard, diff: str) -> None:
    lines = diff.splitlines()
    card.added = sum(text.startswith("+") and not text.startswith("+++") for text in lines)
    card.removed = sum(text.startswith("-") and not text.startswith("---") for text in lines)
    card.diff = mark_safe(highlight(_cut(diff), DiffLexer(), HtmlFormatter(nowrap=True)))


def _cut(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}\n… {len(text) - MOST_SHOWN:,} more characters are in the log."


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None
