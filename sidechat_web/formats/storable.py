"""Foreign text and numbers as every database takes them. The verbatim lines keep what is lost here.

PostgreSQL refuses U+0000 in text and JSON, UTF-8 refuses lone surrogates, and integer columns have ends.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sidechat_web.core.events import MAX_SAFE_INTEGER, Json, safe_integer

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def text(value: Json) -> str:
    """The string with what cannot be stored replaced by U+FFFD; empty for what is no string."""
    return _UNSTORABLE.sub("\ufffd", value) if isinstance(value, str) else ""


def identifier(value: str) -> str:
    """The string with what cannot be stored escaped as in JSON, so that different ids stay different."""
    return _UNSTORABLE.sub(lambda m: f"\\u{ord(m[0]):04x}", value)


def json(value: Json) -> Any:
    """The JSON value with every string in it made storable."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [json(item) for item in value]
    if isinstance(value, dict):
        return {text(key): json(item) for key, item in value.items()}
    return value


def count(value: Json) -> int:
    """A non-negative integer; 0 for anything else."""
    return value if safe_integer(value) and value > 0 else 0


def total(value: int) -> int:
    """A sum of counts, kept inside a database integer."""
    return min(value, MAX_SAFE_INTEGER)
