"""The tools of all configured servers, from their listings.

The SDK is imported only when a server is spoken to: naming tools needs none of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sidechat_web.runtime.tools.registry import Result, Tool
from sidechat_web.storage.models import Session

from . import listing, servers
from .listing import Listed, qualified
from .servers import CONNECT_SECONDS, LOOK_SECONDS, Server


def source(_session: Session | None, _cwd: str | None) -> Iterator[Tool]:
    """The tools of the servers that were listed, whether or not they are alive now."""
    for server, found in listing.read_all(servers.configured()).items():
        for listed in found.tools:
            yield tool_of(server, listed)


def tool_of(server: Server, listed: Listed) -> Tool:
    """A server's word that a tool changes nothing counts only where the operator trusts the server."""
    return Tool(
        qualified(server.name, listed.name),
        listed.description,
        listed.parameters,
        read_only=server.trusted and listed.claims_read_only,
        run=partial(_call, server, listed.name),
        timeout_seconds=CONNECT_SECONDS + server.seconds + 10,
    )


async def serve() -> None:
    """What runs beside a runner, once a server is configured: see `calls.serve`."""
    while not servers.configured():  # noqa: ASYNC110 - a file, which rings no bell
        await asyncio.sleep(LOOK_SECONDS)
    from . import calls

    await calls.serve()


async def _call(server: Server, name: str, _root: Path, arguments: dict[str, Any]) -> Result:
    from . import calls

    return await calls.call(server, name, arguments)
