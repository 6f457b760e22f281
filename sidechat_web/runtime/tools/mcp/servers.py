"""The MCP servers that the operator configured, from `mcp.json` in the data directory and from any other feed.

The file has the usual shape, with two names of ours, `trusted` and `timeoutSeconds`:

    {"mcpServers": {
        "files":  {"command": "npx", "args": ["-y", "…"], "env": {"TOKEN": "${TOKEN}"}, "trusted": true},
        "issues": {"url": "https://…/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "disabled": true}}}

`${NAME}` and `${NAME:-default}` stand for environment variables, so that no secret needs to be in the file. A server
is trusted by the operator's word only: that alone makes its claims about what its tools change count.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from sidechat_web.core import jsontext

FILE_NAME: Final = "mcp.json"
SECONDS: Final = 120.0
CONNECT_SECONDS: Final = 60.0  # a program may have to be fetched first
LOOK_SECONDS: Final = 5.0  # between two looks at what is configured
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_HTTP_TYPES: Final = ("http", "streamable-http", "streamableHttp")
_logger = logging.getLogger(__name__)


class BadServer(ValueError):
    """An entry that cannot be used; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server: a program that speaks over its standard streams (`command`), or an address (`url`)."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    trusted: bool = False
    seconds: float = SECONDS  # how long one call may take

    @property
    def fingerprint(self) -> str:
        """What the server is, without what it is trusted with or any secret: another server has another one."""
        names = [name for name, _ in (*self.env, *self.headers)]
        what = [self.name, self.command, self.args, names, self.cwd, self.url]
        return hashlib.sha256(jsontext.dump_bytes(what)).hexdigest()

    def without_secrets(self, text: str) -> str:
        """`text` with the values of its variables and headers left out, so that what a server prints can be shown."""
        values = {value for _, value in (*self.env, *self.headers) if len(value) >= 6}
        values |= {value.split(" ", 1)[1] for value in values if value.lower().startswith(("bearer ", "basic "))}
        for value in sorted(values, key=len, reverse=True):
            text = text.replace(value, "…")
        return text


Feed = Callable[[], Iterable[Server]]


def configured() -> list[Server]:
    """The enabled servers of all feeds, by name; of two with one name the earlier feed's counts."""
    found: dict[str, Server] = {}
    for feed in feeds:
        for server in feed():
            found.setdefault(server.name, server)
    return [found[name] for name in sorted(found)]


def from_file() -> list[Server]:
    """The servers of the file; an entry that cannot be used is logged, once for each state of the file."""
    servers, problems = read_file(settings.DATA_DIR / FILE_NAME)
    for problem in problems:
        if problem not in _said:
            _said.add(problem)
            _logger.warning("%s", problem)
    return servers


def read_file(path: Path) -> tuple[list[Server], list[str]]:
    """The servers of the file, and what is wrong with the rest of it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as e:
        return [], [f"{path.name} cannot be read: {e.strerror}"]
    try:
        return parse(jsontext.loads(text))
    except (ValueError, RecursionError) as e:
        return [], [f"{path.name} is not JSON: {e}"]


def parse(config: Any) -> tuple[list[Server], list[str]]:
    """The enabled servers of a configuration, and what is wrong with its other entries."""
    entries = config.get("mcpServers") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        return [], [f'{FILE_NAME}: expected {{"mcpServers": {{…}}}}']
    servers, problems = [], []
    for name, entry in entries.items():
        try:
            if not _flag(entry, "disabled"):
                servers.append(server_of(name, entry))
        except BadServer as e:
            problems.append(f"{FILE_NAME}, server {name!r}: {e}")
    return servers, problems


def server_of(name: str, entry: Any) -> Server:
    """The server that an entry describes. Raises BadServer."""
    if not name.strip():
        raise BadServer("the name is empty")
    server = Server(name, trusted=_flag(entry, "trusted"), seconds=_seconds(entry))
    kind, command, url = _text(entry, "type"), _text(entry, "command"), _text(entry, "url")
    if command and not url and kind in ("", "stdio"):
        args = tuple(_expanded(arg) for arg in _strings(entry, "args"))
        cwd = _expanded(_text(entry, "cwd")) or None
        return replace(server, command=_expanded(command), args=args, env=_pairs(entry, "env"), cwd=cwd)
    if url and not command and kind in ("", *_HTTP_TYPES):
        url = _expanded(url)
        if not url.startswith(("http://", "https://")):
            raise BadServer("'url' must start with http:// or https://")
        return replace(server, url=url, headers=_pairs(entry, "headers"))
    if kind and kind not in ("stdio", *_HTTP_TYPES):
        raise BadServer(f"type {kind!r} is not supported; expected stdio or http (streamable HTTP)")
    raise BadServer("expected either 'command' (stdio) or 'url' (streamable HTTP)")


def _flag(entry: Any, name: str) -> bool:
    value = entry.get(name, False) if isinstance(entry, dict) else None
    if not isinstance(value, bool):
        raise BadServer(f"{name!r} must be true or false" if isinstance(entry, dict) else "expected an object")
    return value


def _seconds(entry: Mapping[str, Any]) -> float:
    value = entry.get("timeoutSeconds", SECONDS)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 3600:
        raise BadServer("'timeoutSeconds' must be a number from 1 to 3600")
    return float(value)


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name) or ""
    if not isinstance(value, str) or "\0" in value:
        raise BadServer(f"{name!r} must be a string")
    return value


def _strings(entry: Mapping[str, Any], name: str) -> list[str]:
    value = entry.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
        raise BadServer(f"{name!r} must be an array of strings")
    return value


def _pairs(entry: Mapping[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    value = entry.get(name) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) and "\0" not in item for item in value.values()):
        raise BadServer(f"{name!r} must be an object of strings")
    return tuple((key, _expanded(item)) for key, item in sorted(value.items()))


def _expanded(text: str) -> str:
    """`text` with its variables put in. Raises BadServer where one is not set and has no default."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        found = os.environ.get(name, default)
        if found is None:
            raise BadServer(f"the environment variable {name} is not set")
        return found

    return _VARIABLE.sub(value, text)


_said: set[str] = set()
feeds: Final[list[Feed]] = [from_file]
