"""The sockets of a real server, as a program meets them that knows nothing but the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import websockets

from tests.faults.product import Product

TEXT = "a 😀 e\u0301 👩\u200d👩\u200d👧 مرحبا end"
Frame = dict[str, Any]


@pytest.fixture(scope="module")
def product(tmp_path_factory, provider_server) -> Iterator[Product]:
    with Product(tmp_path_factory.mktemp("protocol"), provider_server.base_url) as product:
        yield product


class Socket:
    """One connection, and what came over it."""

    def __init__(self, product: Product, path: str, *, token: bool = True, origin: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {product.token}"} if token else {}
        address = f"ws://127.0.0.1:{product.port}/ws/{path}"
        self._connecting = websockets.connect(
            address, additional_headers=headers, origin=origin, max_size=None, max_queue=None, proxy=None
        )
        self.frames: list[Frame] = []

    async def __aenter__(self) -> Socket:
        self._socket = await self._connecting.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._connecting.__aexit__(*exc)

    async def until(self, condition: Callable[[Frame], Any]) -> Frame:
        async with asyncio.timeout(20):
            while True:
                frame = json.loads(await self._socket.recv())
                self.frames.append(frame)
                if condition(frame):
                    return frame

    async def caught_up(self) -> list[dict[str, Any]]:
        """The events up to where the connection is live."""
        await self.until(lambda frame: frame["t"] == "merges")
        return self.events

    async def closed(self) -> int:
        await self._socket.wait_closed()
        return self._socket.close_code

    @property
    def events(self) -> list[dict[str, Any]]:
        return [frame["event"] for frame in self.frames if frame["t"] == "event"]

    @property
    def texts(self) -> dict[tuple[int, int, int], str]:
        """The streamed blocks, each delta at the client's own length."""
        texts: dict[tuple[int, int, int], str] = {}
        for frame in self.frames:
            if frame["t"] == "delta":
                key = (frame["turn"], frame["step"], frame["index"])
                have = texts.get(key, "")
                assert frame["offset"] == len(have)
                texts[key] = have + frame["text"]
        return texts


async def call(product: Product, method: str, path: str, body: Any = None) -> Any:
    status, answer = await asyncio.to_thread(product.call, method, path, body)
    assert status < 300, answer
    return answer


async def new(product: Product) -> str:
    return (await call(product, "POST", "/api/sessions", {}))["id"]


async def say(product: Product, session: str, text: str, **fields: str) -> None:
    await call(product, "POST", f"/api/sessions/{session}/messages", {"text": text, **fields})


def has_ended(frame: Frame) -> bool:
    return frame["t"] == "status" and frame["status"] == "idle"


def is_event(kind: str) -> Callable[[Frame], bool]:
    return lambda frame: frame["t"] == "event" and frame["event"]["type"] == kind


async def test_first_frames(product):
    session = await new(product)
    async with Socket(product, f"sessions/{session}/?as=json") as socket:
        await socket.caught_up()
    assert socket.frames == [
        {"t": "hello", "session": session, "seq": -1, "status": "idle", "turn": None},
        {"t": "status", "status": "idle", "turn": None, "reason": None},
        {"t": "queue", "items": []},
        {"t": "merges", "items": []},
    ]


@pytest.mark.parametrize("units", ["[[units]]", ""])
async def test_offsets_are_code_points_also_where_the_provider_cuts_a_character(product, units):
    session = await new(product)
    path = f"sessions/{session}/?as=json"
    async with Socket(product, path) as socket:
        await socket.caught_up()
        await say(product, session, f"{units}[[every:15]][[say:{TEXT}]]")
        await socket.until(lambda frame: frame["t"] == "delta" and "😀" in frame["text"])
        async with Socket(product, path) as late:
            await late.until(has_ended)
        await socket.until(has_ended)
        first = next(frame for frame in late.frames if frame["t"] == "delta")
        assert (first["offset"], first["text"][:3]) == (0, TEXT[:3])
        for one in (socket, late):
            assert one.texts == {(1, 1, 0): TEXT}
            assert [e["seq"] for e in one.events] == sorted({e["seq"] for e in one.events})


async def test_where_a_replay_starts(product):
    session = await new(product)
    await say(product, session, "[[say:one two three]]")
    await asyncio.to_thread(product.wait_idle, session)
    log = await asyncio.to_thread(product.events, session, chunks=1)
    durable = [event for event in log if event["type"] != "assistant/chunk"]
    head = log[-1]["seq"]

    async def replayed(query: str) -> list[dict[str, Any]]:
        async with Socket(product, f"sessions/{session}/?as=json{query}") as socket:
            events = await socket.caught_up()
        assert socket.frames[0]["seq"] == head
        return events

    for query in ("", "&after=-1", "&after=-9", "&after=x", "&after=1.5", "&after=%F0%9F", "&after=" + "9" * 5000):
        assert await replayed(query) == durable, query
    assert await replayed("&after=3") == [event for event in durable if event["seq"] > 3]
    assert await replayed(f"&after={head - 1}") == log[-1:]
    assert await replayed(f"&after={head}") == await replayed("&after=99999999") == []
    assert await replayed("&after=3&chunks=1") == log[4:]


async def test_chunks_come_live_to_who_asked(product):
    session = await new(product)
    async with Socket(product, f"sessions/{session}/?as=json&chunks=1") as socket:
        await say(product, session, "[[every:10]][[say:one two three four five six]]")
        await socket.until(is_event("turn/end"))
    assert socket.events == await asyncio.to_thread(product.events, session, chunks=1)


async def test_queue_status_and_merges_as_they_change(product):
    session = await new(product)
    async with Socket(product, f"sessions/{session}/?as=json") as socket:
        await say(product, session, f"[[every:30]][[say:{'word ' * 99}]]")
        await socket.until(lambda frame: frame["t"] == "delta")
        await say(product, session, "later")
        await say(product, session, "steer", mode="steer")
        queue = await socket.until(lambda frame: frame["t"] == "queue" and len(frame["items"]) == 2)
        assert [set(item) for item in queue["items"]] == [{"id", "mode", "text"}] * 2
        await call(product, "POST", f"/api/sessions/{session}/stop", {})
        ended = await socket.until(has_ended)
        assert ended["reason"] == {"kind": "aborted", "reason": {"kind": "user"}}
        assert ended["turn"] is None
        await asyncio.to_thread(product.wait_idle, session)
    side = (await call(product, "POST", f"/api/sessions/{session}/fork", {"side": True}))["id"]
    async with Socket(product, f"sessions/{side}/?as=json") as socket:
        await socket.caught_up()
        await say(product, side, "what is it?")
        await socket.until(is_event("turn/end"))
        await call(product, "POST", f"/api/sessions/{side}/merge", {})
        merges = await socket.until(
            lambda frame: frame["t"] == "merges" and [m["state"] for m in frame["items"]] == ["delivered"]
        )
        assert merges["items"] == await call(product, "GET", f"/api/sessions/{side}/merges")
        await call(product, "DELETE", f"/api/sessions/{side}")
        assert await socket.until(lambda frame: frame["t"] == "bye") == {"t": "bye", "code": "deleted"}
        assert await socket.closed() == 4410


async def test_tree_by_token_in_the_address(product):
    async with Socket(product, f"tree/?as=json&token={product.token}", token=False) as socket:
        await socket.until(lambda frame: frame["t"] == "hello")
        session = await new(product)
        row = await socket.until(lambda frame: frame["t"] == "row" and frame["session"]["id"] == session)
        assert row["session"] == await call(product, "GET", f"/api/sessions/{session}")
        await call(product, "DELETE", f"/api/sessions/{session}")
        assert await socket.until(lambda frame: frame["t"] == "gone") == {"t": "gone", "session": session}
    assert socket.frames[0] == {"t": "hello"}


async def test_strangers_and_foreign_pages(product):
    session = await new(product)
    for path, token in ((f"sessions/{session}/", False), ("sessions/nowhere/", True), ("tree/", False)):
        async with Socket(product, f"{path}?as=json", token=token) as socket:
            assert await socket.until(lambda _: True) == {"t": "bye", "code": "forbidden"}
            assert await socket.closed() == 4404
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{product.port + 1}"):
        with pytest.raises(websockets.InvalidStatus):
            async with Socket(product, f"sessions/{session}/", origin=origin):
                pass
    async with Socket(product, f"sessions/{session}/?as=json", origin=product.url) as socket:
        await socket.caught_up()
