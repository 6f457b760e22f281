"""Arguments as a model wrote them, read as what a tool expects. An absent or null one takes the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .registry import ToolError


def text(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ToolError(
            f"{name!r} must be a string" + (f", not {_kind(value)}." if name in arguments else "; it is missing.")
        )
    return value


def whole(arguments: Mapping[str, Any], name: str, default: int, *, least: int = 1) -> int:
    """A whole number; `"12"` and `12.0` are taken for 12."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ToolError(f"{name!r} must be a whole number of at least {least}.")
    return value


def flag(arguments: Mapping[str, Any], name: str) -> bool:
    value = arguments.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ToolError(f"{name!r} must be true or false, not {_kind(value)}.")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", bool: "a boolean", type(None): "null", str: "a string"}
    return names.get(type(value), "a number")
