"""Surrogate pairs that a stream cut: JSON spells a character outside the BMP as two escapes, which may come apart."""

from __future__ import annotations

import re

_HALF = re.compile("[\ud800-\udfff]")
_FIRST_HALVES = range(0xD800, 0xDC00)


def joined(text: str) -> tuple[str, str]:
    """`text` with its pairs joined, without the half that it may end with; and that half."""
    if not _HALF.search(text):
        return text, ""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return (whole[:-1], whole[-1]) if ord(whole[-1]) in _FIRST_HALVES else (whole, "")
