"""The two ways to a server, each bounded: no message, however long, is held beyond a limit.

The SDK's own stdio transport holds a line of any length and hides what the program says on its error stream; this one
limits the former and keeps the end of the latter, which is where a server says why it does not start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from sidechat_web.runtime.tools import processes

from .servers import Server

MAX_MESSAGE_BYTES: Final = 8 << 20
MAX_STRAYS: Final = 1000  # lines of a connection that are no messages
MAX_LAST_WORDS: Final = 1000
_GRACE_SECONDS: Final = 1.0
_CHUNK: Final = 64 << 10
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)  # it logs failures that we report

Incoming = SessionMessage | Exception


@dataclass(slots=True)
class Attempt:
    """What HTTP said of one call; set before the call is sent, since the SDK sends it in the caller's context."""

    status: int = 0  # an error status, 0 where there was none
    connected: bool = True


attempt: ContextVar[Attempt | None] = ContextVar("attempt", default=None)


class LastWords:
    """Why a connection may have ended, as far as anybody said: its own limits, a status, the end of an error stream."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.pid: int | None = None  # of the server's program
        self._reason = ""
        self._printed = bytearray()

    @property
    def over(self) -> bool:
        return self.ended.is_set() or (self.pid is not None and processes.has_exited(self.pid))

    def because(self, reason: str) -> None:
        self._reason = reason

    def printed(self, data: bytes) -> None:
        self._printed += data
        del self._printed[:-MAX_LAST_WORDS]

    @property
    def text(self) -> str:
        printed = " ".join(self._printed.decode("utf-8", "replace").split())
        return self._reason or (f"It said last: {printed}" if printed else "")


def transport(server: Server, words: LastWords) -> Transport:
    opened: AbstractAsyncContextManager[Any] = _http(server, words) if server.url else _stdio(server, words)
    return opened


@asynccontextmanager
async def _stdio(server: Server, words: LastWords) -> AsyncIterator[Any]:
    process = await _start(server)
    words.pid = process.pid
    to_us, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin and process.stdout and process.stderr
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_receive, process.stdout, to_us, words)
            tasks.start_soon(_send, process.stdin, from_us)
            tasks.start_soon(_overhear, process.stderr, words)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _stop(process)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (to_us, incoming, outgoing, from_us):
            stream.close()


async def _start(server: Server) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        cwd=server.cwd,
        env={**processes.environment(), **dict(server.env)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_MESSAGE_BYTES,
        start_new_session=True,
    )


async def _receive(stdout: asyncio.StreamReader, to_us: MemoryObjectSendStream[Incoming], words: LastWords) -> None:
    strays = 0
    try:
        async with to_us:
            while strays < MAX_STRAYS and (line := await stdout.readline()):
                message = _message(line)
                if message is None:
                    strays += 1
                else:
                    await to_us.send(message)
        if strays == MAX_STRAYS:
            words.because("It prints other things than messages, so it was stopped.")
    except ValueError:
        words.because(f"It sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB, so it was stopped.")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        pass
    finally:
        words.ended.set()
    while await stdout.read(_CHUNK):
        pass  # so that its end is seen


def _message(line: bytes) -> SessionMessage | None:
    """The message, or None where the line is none: some servers print other things too."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _send(stdin: asyncio.StreamWriter, from_us: MemoryObjectReceiveStream[SessionMessage]) -> None:
    with suppress(anyio.ClosedResourceError, ConnectionError):
        async with from_us:
            async for item in from_us:
                stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()


async def _overhear(stderr: asyncio.StreamReader, words: LastWords) -> None:
    while data := await stderr.read(_CHUNK):
        words.printed(data)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Close its input, which asks a server to end; then make it end."""
    assert process.stdin
    process.stdin.close()
    if await processes.ended(process, _GRACE_SECONDS):
        processes.end_now(process.pid)
    else:
        await processes.end(process)


class TooMuch(httpx2.StreamError):
    """A response body over the limit."""


class _Limited(httpx2.AsyncByteStream):
    """A body that ends with an error where it passes the limit."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise TooMuch(f"more than {MAX_MESSAGE_BYTES >> 20} MiB in one message")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _HttpClient(httpx2.AsyncClient):
    """Bounds every body, and keeps why a POST failed: the SDK only logs that, and the connection is over then."""

    def __init__(self, server: Server, words: LastWords) -> None:
        headers = {**dict(server.headers), "accept-encoding": "identity"}
        super().__init__(headers=headers, timeout=httpx2.Timeout(30.0, read=server.seconds + 60))
        self._words = words

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
            if "content-encoding" in response.headers:
                raise httpx2.DecodingError("the answer is compressed, which was not asked for")
        except httpx2.RequestError as e:
            if request.method == "POST":
                self._failed(e)
            raise
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Limited(response.stream)
        if response.status_code >= 400 and request.method == "POST":
            self._refused(response.status_code)
        return response

    def _failed(self, error: httpx2.RequestError) -> None:
        if isinstance(error, httpx2.ConnectError) and (this := attempt.get()) is not None:
            this.connected = False
        self._words.because(f"{str(error) or type(error).__name__}.")
        self._words.ended.set()

    def _refused(self, status: int) -> None:
        if (this := attempt.get()) is not None:
            this.status = status
        self._words.because(f"It answered with HTTP status {status}.")


@asynccontextmanager
async def _http(server: Server, words: LastWords) -> AsyncIterator[Any]:
    async with (
        _HttpClient(server, words) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams
