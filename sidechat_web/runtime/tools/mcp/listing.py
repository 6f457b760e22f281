"""What each server offers, as it was last listed: names, canonical schemas, and the server's own claims.

Kept in the database, so that every process names a session's schemas without a connection, in the same bytes, also
after a restart.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sidechat_web.core import jsontext
from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.models import McpListing

from .servers import Server

if TYPE_CHECKING:
    from mcp import Tool as Offered

MAX_NAME_CHARS: Final = 64
MAX_TOOLS: Final = 128
MAX_DESCRIPTION_CHARS: Final = 4000
MAX_SCHEMA_CHARS: Final = 30_000
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
_VALUES: Final = ("const", "default", "enum", "example", "examples")  # keywords whose values are data, not schemas
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool of a server. `claims_read_only` is the server's word."""

    name: str
    description: str
    parameters: dict[str, Any]
    claims_read_only: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server when it was last listed, and why it could not be listed since then, if so."""

    tools: tuple[Listed, ...] = ()
    at: int = 0  # epoch ms; 0: never
    error: str = ""


def qualified(server: str, tool: str) -> str:
    """`server__tool` as providers take names: letters, digits, `_` and `-`, at most 64.

    A name that had to be changed, or that could be read as another pair's, ends with a digest of the pair. So a
    name stands for the same pair whatever else is configured or listed.
    """
    plain = f"{server}__{tool}"
    divides = "__" not in server and not server.endswith("_") and not tool.startswith("_")
    if divides and _PLAIN.fullmatch(plain) and len(plain) <= MAX_NAME_CHARS:
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:8]
    safe = "__".join(re.sub(r"[^A-Za-z0-9-]+", "_", part).strip("_") or "x" for part in (server, tool))
    return f"{safe[: MAX_NAME_CHARS - 9]}_{digest}"


def canonical(offered: Iterable[Offered]) -> tuple[Listed, ...]:
    """The tools by name, each in the one form that its schema has; without those that cannot be offered to a model."""
    tools = {tool.name: listed for tool in offered if (listed := _listed(tool)) is not None}
    return tuple(tools[name] for name in sorted(tools)[:MAX_TOOLS])


def _listed(tool: Offered) -> Listed | None:
    description = (tool.description or tool.title or "").strip()
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = description[:MAX_DESCRIPTION_CHARS] + " […]"
    try:
        parameters = _ordered({**tool.input_schema, "type": "object"})
        size = len(jsontext.dumps(parameters))
    except (ValueError, RecursionError):
        size = MAX_SCHEMA_CHARS + 1
    if size > MAX_SCHEMA_CHARS or not 0 < len(tool.name) <= 1000:
        _logger.warning("the MCP tool %.100r is left out: its name or schema is too large or not valid", tool.name)
        return None
    hint = tool.annotations.read_only_hint if tool.annotations else None
    return Listed(tool.name, description, parameters, hint is True)


def _ordered(schema: Any, *, data: bool = False) -> Any:
    """A schema with its keys in order, and the names that it requires: their order says nothing."""
    if isinstance(schema, dict):
        return {key: _ordered_value(key, schema[key], data=data) for key in sorted(schema)}
    return [_ordered(item, data=data) for item in schema] if isinstance(schema, list) else schema


def _ordered_value(key: str, value: Any, *, data: bool) -> Any:
    if key == "required" and not data and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(set(value))
    return _ordered(value, data=data or key in _VALUES)


def read(server: Server) -> Listing | None:
    """The last listing, or None where the server, as it is configured now, never was listed."""
    return read_all([server]).get(server)


def read_all(servers: Iterable[Server]) -> dict[Server, Listing]:
    """The last listings of those servers that were listed, in their order."""
    wanted = {server.fingerprint: server for server in servers}
    rows = McpListing.objects.in_bulk(list(wanted))
    return {server: _listing(rows[key]) for key, server in wanted.items() if key in rows}


def keep(server: Server, tools: tuple[Listed, ...]) -> Listing:
    """Store a fresh listing; nothing is written where it says what the last one said."""
    last = read(server)
    if last is not None and last.tools == tools and not last.error:
        return last
    return _store(server, Listing(tools, now_ms()))


def keep_failure(server: Server, error: str) -> Listing:
    """Store why the server could not be listed; what it offered before stays."""
    last = read(server) or Listing()
    return last if last.error == error else _store(server, Listing(last.tools, last.at, error))


def _store(server: Server, listing: Listing) -> Listing:
    content = jsontext.dumps(asdict(listing))
    McpListing.objects.update_or_create(fingerprint=server.fingerprint, defaults={"content": content})
    return listing


def _listing(row: McpListing) -> Listing:
    kept = json.loads(row.content)
    return Listing(tuple(Listed(**tool) for tool in kept["tools"]), kept["at"], kept["error"])
