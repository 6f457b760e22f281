"""Calls, and the work beside the runner that keeps listings known."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from sidechat_web.runtime.db import in_db
from sidechat_web.runtime.tools.registry import Result

from . import connections, listing, servers
from .results import result_of
from .servers import LOOK_SECONDS, Server

RETRY_SECONDS: Final = 60.0  # before a server that could not be listed is tried again
_logger = logging.getLogger(__name__)


async def call(server: Server, tool: str, arguments: dict[str, Any]) -> Result:
    """The server's answer, or what is known where it gave none; never an exception of the server's making."""
    meta = {"server": server.name, "tool": tool}
    try:
        return result_of(await connections.here().call(server, tool, arguments), meta)
    except connections.Unavailable as e:
        return Result(str(e), True, meta)


async def serve() -> None:
    """List each server that was never listed as it is configured now, until cancelled; then leave all servers."""
    tried: dict[str, float] = {}
    try:
        while True:
            try:
                await list_unlisted(tried)
            except Exception:
                _logger.exception("MCP servers could not be listed; trying again")
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await connections.here().close()


async def list_unlisted(tried: dict[str, float]) -> None:
    """List the servers without a good listing, together; `tried` says when each was tried last."""
    now = time.monotonic()
    waiting = []
    configured = servers.configured()
    listed = await in_db(listing.read_all, configured)
    for server in configured:
        known = listed.get(server)
        if (known is None or known.error) and now - tried.get(server.fingerprint, -RETRY_SECONDS) >= RETRY_SECONDS:
            tried[server.fingerprint] = now
            waiting.append(connections.here().list_now(server))
    await asyncio.gather(*waiting)
