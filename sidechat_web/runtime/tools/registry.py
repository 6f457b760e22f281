"""The tools that the host knows, by identity: what runs is decided by registration, never by a model's words.

A session's schemas are pinned in its header when it is created, in name order, so that they stay the same
bytes in every request and every fork. Execution looks the tool up again by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sidechat_web.storage.models import Session

OUTPUT_CAP_CHARS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answers. `meta` is for people (a diff, counts, timing); the model never sees it."""

    text: str
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict)


class ToolError(Exception):
    """The call could not be done; the message is for the model, and says what was expected."""


Run = Callable[[Path, dict[str, Any]], Awaitable[Result]]  # (workspace root, parsed arguments)


@dataclass(frozen=True, slots=True)
class Tool:
    """`read_only` is the host's own knowledge: such a tool changes nothing outside the log."""

    name: str
    description: str
    parameters: dict[str, Any]  # JSON Schema of the arguments, an object
    read_only: bool
    run: Run
    timeout_seconds: float = 60.0

    @property
    def schema(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


Source = Callable[[Session | None, str | None], Iterable[Tool]]  # (session, cwd) → its tools
sources: list[Source] = []


def tools_of(session: Session) -> dict[str, Tool]:
    """The tools that `session` may call now, by name."""
    return {tool.name: tool for source in sources for tool in source(session, session.cwd)}


def schemas(cwd: str | None) -> list[dict[str, Any]]:
    """The schemas of a new session, in name order; those of the workspace tools only where it has a `cwd`."""
    found = {tool.name: tool for source in sources for tool in source(None, cwd)}
    return [found[name].schema for name in sorted(found)]
