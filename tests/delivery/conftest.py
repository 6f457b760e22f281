"""A client of the sockets, and a producer that writes a log and streams as a runner does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from sidechat_web.accounts import tokens
from sidechat_web.asgi import routes
from sidechat_web.core import events as ev
from sidechat_web.delivery import hub
from sidechat_web.runtime import commands, live
from sidechat_web.storage import log
from sidechat_web.storage.log import ChunkBatch

append = sync_to_async(log.append)
append_chunks = sync_to_async(log.append_chunks)
create = sync_to_async(commands.create)


class Client:
    """A program on a session's socket: applies frames as the protocol asks, and keeps them."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self._communicator = communicator
        self.frames: list[dict[str, Any]] = []
        self.blocks: dict[tuple[int, int, int], str] = {}

    async def next(self, seconds: float = 10) -> dict[str, Any]:
        frame = json.loads(await self._communicator.receive_from(seconds))
        self.frames.append(frame)
        if frame["t"] == "delta":
            self._apply(frame)
        return frame

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next frame of this kind with these fields."""
        async with asyncio.timeout(10):
            while True:
                frame = await self.next()
                if frame["t"] == kind and all(frame[name] == value for name, value in fields.items()):
                    return frame

    async def event(self, kind: str, **data: Any) -> dict[str, Any]:
        """The next event of this type whose data have these fields."""
        while True:
            event = (await self.until("event"))["event"]
            if event["type"] == kind and all(event["data"].get(name) == value for name, value in data.items()):
                return event

    async def next_html(self) -> str:
        return await self._communicator.receive_from(10)

    async def nothing(self) -> bool:
        return await self._communicator.receive_nothing(0.1)

    async def close(self) -> None:
        await self._communicator.disconnect()

    async def closed(self) -> int:
        """The close code that the server sends next."""
        message = await self._communicator.receive_output(10)
        assert message["type"] == "websocket.close", message
        return message["code"]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [frame["event"] for frame in self.frames if frame["t"] == "event"]

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]

    def _apply(self, frame: dict[str, Any]) -> None:
        key = (frame["turn"], frame["step"], frame["index"])
        shown = self.blocks.get(key, "")
        assert frame["offset"] == len(shown), "a delta that is not at the client's own length"
        self.blocks[key] = shown + frame["text"]


class Producer:
    """A runner's part of a session: durable steps, chunks that are flushed when told, deltas."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.turn, self.step, self.text = 0, 0, ""
        self._bodies: list[tuple[int, dict[str, Any]]] = []

    async def start(self, text: str = "question") -> None:
        self.turn, self.step, self.text = self.turn + 1, 1, ""
        await append(
            self.session.pk,
            [
                ev.turn_start(self.turn),
                ev.step_start(self.turn, 1),
                ev.user_message(f"u{self.turn}", ev.text_blocks(text)),
            ],
        )

    def stream(self, text: str, *, lost: bool = False) -> None:
        """One provider piece; a `lost` one reaches no viewer but by the log."""
        piece = live.Delta(self.turn, self.step, 0, "text", len(self.text), text)
        chunk = {"type": "text-delta", "index": 0, "text": text}
        self._bodies.append((1, {"turn": self.turn, "step": self.step, "chunk": chunk}))
        self.text += text
        if not lost:
            live.delta(self.session.pk, piece)

    async def flush(self) -> None:
        bodies, self._bodies = self._bodies, []
        await append_chunks([ChunkBatch(self.session.pk, self.turn, bodies)])

    async def end(self, reason: str = "completed") -> None:
        await self.flush()
        message = {"id": f"a{self.turn}", "role": "assistant", "content": ev.text_blocks(self.text)}
        done = [
            ev.assistant_message(self.turn, self.step, message),
            ev.step_end(self.turn, self.step),
            ev.turn_end(self.turn, {"kind": reason}),
        ]
        await append(self.session.pk, done)

    async def whole_turn(self, text: str) -> None:
        await self.start()
        self.stream(text)
        await self.end()


Connect = Callable[..., Any]


@pytest.fixture
async def session(owner):
    return await create(owner, model="custom/scripted", title="Session")


@pytest.fixture
def producer(session) -> Producer:
    return Producer(session)


@pytest.fixture
async def token(owner) -> str:
    return await sync_to_async(tokens.issue)(owner, "test")


@pytest.fixture
async def connect(token, settings, provider) -> AsyncIterator[Connect]:
    """`await connect(session, after=…)`: a client that said hello to the server."""
    opened: list[WebsocketCommunicator] = []

    async def open_socket(
        session: Any = None,
        *,
        headers: dict[str, str] | None = None,
        token: str = token,
        in_query: str = "",
        **query: Any,
    ) -> Client:
        place = "tree" if session is None else f"sessions/{getattr(session, 'pk', session)}"
        asked = {"as": "json", **query, **({"token": in_query} if in_query else {})}
        path = f"/ws/{place}/?{urlencode(asked)}"
        given = {"host": "localhost", **({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in given.items()]
        communicator = WebsocketCommunicator(routes, path, headers=pairs)
        accepted, _ = await communicator.connect(10)
        if not accepted:
            raise ConnectionRefusedError(path)
        opened.append(communicator)
        return Client(communicator)

    yield open_socket
    for communicator in opened:
        await communicator.disconnect()
    await hub.stop()
