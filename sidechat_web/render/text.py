"""Text from a log made fit for a page."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")
# What moves text around or hides it: C0 and C1 controls, bidi embeddings and overrides.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ANSI = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")


def sound(text: str) -> str:
    """`text` that UTF-8 can hold: halves of a surrogate pair joined, lone ones replaced."""
    if not _LONE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def plain(text: str) -> str:
    """`sound` text without terminal sequences, controls and bidi overrides; newlines and tabs stay."""
    return _CONTROLS.sub("", _ANSI.sub("", sound(text)))


def line(text: str, limit: int = 200) -> str:
    """`plain` text on one line of at most `limit` characters, cut visibly."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
