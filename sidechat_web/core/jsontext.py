"""JSON text that any log reader accepts: compact, non-ASCII raw, lone surrogates escaped.

Python's `json` keeps a lone surrogate as a code point that UTF-8 refuses; a streamed delta may cut
a pair, so such text is real. Escaping exactly these keeps every value encodable and lossless.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

MAX_DEPTH: Final = 256  # deeper nesting is no log, and would exhaust the stack of whoever walks it

_LONE = re.compile("[\ud800-\udfff]")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_sorted = json.JSONEncoder(allow_nan=False, separators=(",", ":"), sort_keys=True).encode


def dumps(value: Any) -> str:
    """Compact JSON text of a lossless JSON value. Raises ValueError on NaN or an infinity."""
    return encodable(_encode(value))


def encodable(text: str) -> str:
    """JSON text with its lone surrogates escaped; the value that it stands for is the same."""
    return _LONE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def dump_bytes(value: Any) -> bytes:
    return dumps(value).encode("utf-8")


def canonical(value: Any) -> str:
    """Text that is equal exactly for equal JSON values: keys sorted, true and 1 told apart."""
    return _encode_sorted(value)


def loads(text: str | bytes) -> Any:
    """Parse JSON; invalid UTF-8 becomes U+FFFD, `1.0` the integer 1, a number past all range null.

    Raises ValueError, also on NaN, on infinities and on nesting deeper than MAX_DEPTH.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(text):
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_number)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float | int | None:
    """A number with a fraction or an exponent, as a JavaScript writer would mean it."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _is_too_deep(text: str) -> bool:
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif found[0] in "]}":
            depth -= 1
    return False
