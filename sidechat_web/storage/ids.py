"""Identifiers that sort by creation: 26 characters of `[a-z0-9]` (48 bits of epoch ms, 80 random)."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_lock = threading.Lock()
_last = 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """A fresh id; ids made by one process sort in the order in which they were made."""
    global _last
    with _lock:
        value = (now_ms() << 80) | secrets.randbits(80)
        _last = value = max(value, _last + 1)
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))


def is_id(text: str) -> bool:
    """Whether this could be an id of ours at all: 26 characters of `[a-z0-9]`."""
    return len(text) == 26 and text.isascii() and text.isalnum() and text == text.lower()
