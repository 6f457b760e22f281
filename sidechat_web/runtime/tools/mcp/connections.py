"""Live connections to servers, on one event loop: opened on first use, opened anew when one has ended.

A connection is owned by a task of its own, since the SDK's cancel scopes must be left by the task that entered them.
Callers in other tasks wait for the answer, for the end of the connection, or for their time to be over, whichever
comes first; so no server can hold a turn, and Stop never waits for one.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from mcp import CallToolRequest, Client, Implementation, MCPError, ServerNotification
from mcp import Tool as Offered
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequestParams,
    CallToolResult,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sidechat_web.runtime.db import in_db

from . import listing
from .listing import Listing
from .servers import CONNECT_SECONDS, Server
from .transports import Attempt, LastWords, attempt, transport

LIST_SECONDS: Final = 20.0
MAX_PAGES: Final = 50
MAX_REASON_CHARS: Final = 1500
_RELIST_SECONDS: Final = 1.0  # at most one new listing in this time, however often a server says that it changed
_CLOSE_SECONDS: Final = 10.0
REFUSED_UNREAD: Final = (400, 404)  # HTTP's words for a session that the server, started anew, does not know
_CLIENT: Final = Implementation(name="sidechat", version="0")
_logger = logging.getLogger(__name__)
T = TypeVar("T")


class Unavailable(Exception):
    """The server gave no answer. The message says why, and what is known of the outcome."""


class NotSent(Unavailable):
    """The call never ran: the server was not there any more, or had forgotten us, when it was sent."""


class Connection:
    """One connection, from its start to its end; `opened` and `call` raise Unavailable."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._words = LastWords()
        self._changed = asyncio.Event()
        self._leaving = asyncio.Event()
        self._calls = 0
        self._retired = False
        self._fresh = True  # nothing was called yet
        self._failure: BaseException | None = None
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = _spawn(self._live())

    @property
    def usable(self) -> bool:
        return not (self._retired or self._task.done() or self._words.over)

    async def opened(self) -> Client:
        await _first(self._ready, self._task)
        if self._ready.done():
            return self._ready.result()
        raise Unavailable(f"The MCP server {self.server.name!r} could not be reached. {self._why()}".rstrip())

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        client = await self.opened()
        fresh, self._fresh = self._fresh, False
        this = Attempt()
        self._calls += 1
        answer = _spawn(_send(client, tool, arguments, this))
        try:
            await _first(answer, self._task, seconds=self.server.seconds)
            return await self._answer(answer)
        except Unavailable as e:
            if not this.connected or (this.status in REFUSED_UNREAD and not fresh):
                raise NotSent(str(e)) from e
            raise
        finally:
            answer.cancel()
            self._calls -= 1
            self._leave_if_retired()

    def retire(self) -> None:
        """Take no more calls; leave when those that run have ended."""
        self._retired = True
        self._leave_if_retired()

    async def close(self) -> None:
        self._leaving.set()
        await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    async def _answer(self, answer: asyncio.Task[CallToolResult]) -> CallToolResult:
        name = repr(self.server.name)
        if self._words.ended.is_set() or self._task.done():
            return await self._last_answer(answer)
        if not answer.done():
            self.retire()
            seconds = f"{self.server.seconds:g} seconds"
            raise Unavailable(f"The MCP server {name} gave no answer within {seconds}; the call was cancelled.")
        try:
            return answer.result()
        except MCPError as e:
            if e.code == CONNECTION_CLOSED:
                return await self._last_answer(answer)
            if self.server.url:
                self.retire()
            raise Unavailable(
                f"The MCP server {name} refused the call: {self._shown(e.message)} {self._why()}".rstrip()
            ) from e
        except ValidationError as e:
            raise Unavailable(f"The MCP server {name} gave an answer that the protocol does not know.") from e

    async def _last_answer(self, answer: asyncio.Task[CallToolResult]) -> CallToolResult:
        """What came of a call whose connection has ended: its answer may have come just before."""
        if answer.done() and answer.exception() is None:
            return answer.result()
        self.retire()
        self._words.ended.set()
        await _first(self._task, seconds=_CLOSE_SECONDS)
        what = "ended during the call, so its outcome is unknown"
        raise Unavailable(f"The MCP server {self.server.name!r} {what}. {self._why()}".rstrip())

    async def _live(self) -> None:
        """Enter, list, stay until asked to leave or the server ends, leave."""
        try:
            async with asyncio.timeout(None) as limit:
                limit.reschedule(asyncio.get_running_loop().time() + CONNECT_SECONDS)
                async with self._client() as client:
                    await self._list(client)
                    limit.reschedule(None)
                    self._words.because("")  # what was refused on the way is no reason for anything later
                    self._ready.set_result(client)
                    await self._stay(client)
        except Exception as e:
            self._failure = _cause(e)
            _logger.info("the connection to the MCP server %r ended: %s", self.server.name, self._why())
        finally:
            self._words.ended.set()

    def _client(self) -> Client:
        way = transport(self.server, self._words)
        return Client(way, client_info=_CLIENT, cache=None, message_handler=self._heard)

    async def _heard(self, message: ServerNotification | Exception) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _stay(self, client: Client) -> None:
        leaving, ended = _spawn(self._leaving.wait()), _spawn(self._words.ended.wait())
        listening = _spawn(self._listen(client))
        try:
            while True:
                changed = _spawn(self._changed.wait())
                await _first(leaving, ended, changed)
                changed.cancel()
                if leaving.done() or ended.done():
                    return
                self._changed.clear()
                with suppress(MCPError, ValidationError, TimeoutError):  # what it offered before stays
                    await self._list(client)
                await _first(leaving, ended, seconds=_RELIST_SECONDS)
        finally:
            for task in (leaving, ended, listening):
                task.cancel()

    async def _listen(self, client: Client) -> None:
        """Hear of changes from a server of the newer protocol, which tells only those who asked."""
        offered = client.server_capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and offered is not None and offered.list_changed:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed.set()

    async def _list(self, client: Client) -> None:
        """List the server's tools anew, page by page, and keep the listing."""
        offered: list[Offered] = []
        cursor: str | None = None
        async with asyncio.timeout(LIST_SECONDS):
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                offered += page.tools
                if (cursor := page.next_cursor) is None or len(offered) > listing.MAX_TOOLS:
                    break
        await in_db(listing.keep, self.server, listing.canonical(offered))

    def _leave_if_retired(self) -> None:
        if self._retired and not self._calls:
            self._leaving.set()

    def _why(self) -> str:
        """Why it ended, as far as is known."""
        return self._shown(self._words.text or (_said(self._failure) if self._failure else ""))

    def _shown(self, text: str) -> str:
        return self.server.without_secrets(text)[:MAX_REASON_CHARS]


class Connections:
    """The connections of one event loop, at most one for each server."""

    def __init__(self) -> None:
        self._by_name: dict[str, Connection] = {}
        self._open: WeakSet[Connection] = WeakSet()  # also those that only their last calls keep

    async def call(self, server: Server, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """The server's answer. Raises Unavailable."""
        try:
            return await self._to(server).call(tool, arguments)
        except NotSent:
            return await self._to(server).call(tool, arguments)

    async def list_now(self, server: Server) -> Listing:
        """Connect, list what the server offers, and leave; a failure is kept as the listing's error."""
        try:
            await self.visit(server)
        except Unavailable as e:
            return await in_db(listing.keep_failure, server, str(e))
        return await in_db(listing.read, server) or Listing()

    async def visit(self, server: Server) -> None:
        """Connect, keep a listing of what the server offers, and leave. Raises Unavailable."""
        connection = self._new(server)
        try:
            await connection.opened()
        finally:
            await connection.close()

    async def close(self) -> None:
        self._by_name.clear()
        await asyncio.gather(*(connection.close() for connection in list(self._open)))

    def _to(self, server: Server) -> Connection:
        """The live connection; a new one where there is none, it has ended, or the server is configured anew."""
        known = self._by_name.get(server.name)
        if known is not None and known.usable and known.server == server:
            return known
        if known is not None:
            known.retire()
        connection = self._by_name[server.name] = self._new(server)
        return connection

    def _new(self, server: Server) -> Connection:
        connection = Connection(server)
        self._open.add(connection)
        return connection


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()


def here() -> Connections:
    """The connections of the running event loop."""
    return _of_loop.setdefault(asyncio.get_running_loop(), Connections())


async def _send(client: Client, tool: str, arguments: dict[str, Any], this: Attempt) -> CallToolResult:
    attempt.set(this)
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
    return await client.session.send_request(request, CallToolResult)


def _spawn(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task whose failure is looked at by whoever waits for it, if anyone still does."""
    task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
    _tasks.add(task)
    task.add_done_callback(_seen)
    return task


def _seen(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()


async def _first(*waited: asyncio.Future[Any], seconds: float | None = None) -> None:
    """Wait until one is done, or the time is over."""
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _cause(error: BaseException) -> BaseException:
    """The first cause, out of the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    return str(error) or type(error).__name__


_tasks: set[asyncio.Task[Any]] = set()
