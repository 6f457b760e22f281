"""File patterns: `*` and `?` within a name, `**` across directories, `[a-z]`, `{ts,tsx}`.

A pattern without a slash matches names at any depth; one with a slash matches the path from where the search starts.
"""

from __future__ import annotations

from typing import Final

import regex

from .registry import ToolError

MAX_CHARS: Final = 1000


def compiled(pattern: str) -> regex.Pattern[str]:
    """Matches whole paths, whose parts are divided by slashes. Raises ToolError where the pattern is malformed."""
    pattern = pattern.removeprefix("./")
    if not pattern or len(pattern) > MAX_CHARS:
        raise ToolError(f"A file pattern has 1 to {MAX_CHARS} characters.")
    if ".." in pattern.split("/"):
        raise ToolError("A file pattern cannot contain '..': it is matched inside the workspace.")
    if "/" not in pattern:
        pattern = "**/" + pattern
    try:
        return regex.compile(_translated(pattern) + r"\Z", regex.DOTALL)
    except (regex.error, RecursionError):
        raise ToolError("The file pattern is malformed.") from None


def _translated(pattern: str) -> str:
    out: list[str] = []
    at = depth = 0
    while at < len(pattern):
        rest, char = pattern[at:], pattern[at]
        step = 1
        if rest.startswith("**/"):
            out.append("(?:[^/]+/)*")
            step = 3
        elif char == "*":
            out.append(".*" if rest.startswith("**") else "[^/]*")
            step = 2 if rest.startswith("**") else 1
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := rest.find("]", 2)) > 0:
            out.append(_class(rest[1:end]))
            step = end + 1
        elif char == "{" and "}" in rest:
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and len(rest) > 1:
            out.append(regex.escape(rest[1], special_only=False))
            step = 2
        else:
            out.append(regex.escape(char, special_only=False))
        at += step
    return "".join(out)


def _class(inside: str) -> str:
    """A character class that never matches a slash."""
    negated = inside[0] in "!^"
    chars = inside[1:] if negated else inside
    escaped = "".join("\\" + c if c in r"\[]^&~|" else c for c in chars)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
