"""The entries of `mcp.json` as they stand there, and how one is changed; whatever else the file holds stays."""

from __future__ import annotations

import json
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.conf import settings

from sidechat_web.core import jsontext
from sidechat_web.core.errors import SidechatError

from . import listing, servers
from .listing import Listing
from .servers import BadServer, Server

_changing = threading.Lock()
_ROOT: Final = "mcpServers"


class BadEntry(SidechatError):
    """An entry, or the file, that cannot be used; the message says what was expected."""

    code = "bad_mcp_server"


@dataclass(frozen=True, slots=True)
class Entry:
    """One server as the file has it. `server` is None where `problem` says why it cannot be used."""

    name: str
    raw: dict[str, Any]
    server: Server | None
    problem: str = ""

    @property
    def enabled(self) -> bool:
        return self.raw.get("disabled") is not True


def entries() -> list[Entry]:
    """Every server of the file, by name. Raises BadEntry where the file cannot be read."""
    return [_entry(name, raw) for name, raw in sorted(_read()[_ROOT].items())]


def find(name: str) -> Entry | None:
    return next((entry for entry in entries() if entry.name == name), None)


def save(name: str, raw: dict[str, Any]) -> None:
    """Add or replace one entry. Raises BadEntry."""
    try:
        servers.server_of(name, raw)
    except BadServer as e:
        raise BadEntry(str(e)) from None
    with _changing:
        whole = _read()
        whole[_ROOT][name] = raw
        _write(whole)


def remove(name: str) -> None:
    """Take an entry out; nothing happens where there is none. Raises BadEntry."""
    with _changing:
        whole = _read()
        if whole[_ROOT].pop(name, None) is not None:
            _write(whole)


def list_now(server: Server) -> Listing:
    """Connect to the server and list what it offers; a failure is the listing's error."""
    from . import connections

    async def visit() -> None:
        await connections.here().visit(server)

    try:
        async_to_sync(visit)()
    except connections.Unavailable as e:
        return listing.keep_failure(server, str(e))
    return listing.read(server) or Listing()


def last_listing(entry: Entry) -> Listing | None:
    return listing.read(entry.server) if entry.server is not None else None


def _entry(name: str, raw: Any) -> Entry:
    try:
        return Entry(name, raw, servers.server_of(name, raw))
    except BadServer as e:
        return Entry(name, raw if isinstance(raw, dict) else {}, None, str(e))


def _read() -> dict[str, Any]:
    try:
        whole = jsontext.loads(_file().read_bytes())
    except FileNotFoundError:
        whole = {}
    except OSError as e:
        raise BadEntry(f"the file {servers.FILE_NAME} cannot be read: {e.strerror}") from None
    except (ValueError, RecursionError) as e:
        raise BadEntry(f"the file {servers.FILE_NAME} is not JSON: {e}") from None
    if not isinstance(whole, dict) or not isinstance(whole.setdefault(_ROOT, {}), dict):
        raise BadEntry(f'the file {servers.FILE_NAME} must be {{"{_ROOT}": {{…}}}}')
    return whole


def _write(whole: dict[str, Any]) -> None:
    """Put the new file in the place of the old one at once; it may hold secrets, so only its owner reads it."""
    file = _file()
    temporary = file.with_suffix(f".{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(jsontext.encodable(json.dumps(whole, ensure_ascii=False, indent=2) + "\n").encode())
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, file)


def _file() -> Path:
    path: Path = settings.DATA_DIR / servers.FILE_NAME
    return path.resolve()
