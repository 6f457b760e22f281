"""JSON text that any log reader accepts: compact, non-ASCII raw, lone surrogates escaped.

Python's `json` keeps a lone surrogate as a code point that UTF-8 refuses; a streamed delta may cut
a pair, so such text is real. Escaping exactly these keeps every value encodable and lossless.
"""

from __future__ import annotations

import json
import re
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """Compact JSON text of a lossless JSON value. Raises ValueError on NaN or an infinity."""
    return _LONE.sub(lambda m: f"\\u{ord(m[0]):04x}", _encode(value))


def dump_bytes(value: Any) -> bytes:
    return dumps(value).encode("utf-8")


def loads(text: str | bytes) -> Any:
    """Parse JSON; invalid UTF-8 becomes U+FFFD. Raises ValueError, also on NaN and infinities."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
