"""What a tool says, within its bounds: long text keeps its head and its tail, and the cut is marked."""

from __future__ import annotations

from .registry import OUTPUT_CAP_CHARS

_TAIL_SHARE = 3  # one part in so many of what is kept is the end of the text


def capped(text: str, cap: int = OUTPUT_CAP_CHARS) -> str:
    """`text` in at most `cap` characters, with a mark where and how much was cut."""
    if len(text) <= cap:
        return text
    kept = cap - 60
    tail = kept // _TAIL_SHARE
    head = kept - tail
    return f"{text[:head]}\n[… cut: {len(text) - kept:,} characters …]\n{text[len(text) - tail :]}"


def count(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
