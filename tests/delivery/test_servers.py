"""The sockets of real servers: back-pressure, shutdown, two processes on one Redis."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import websockets

from tests.faults.product import Product
from tests.faults.viewer import Viewer
from tests.services import Service, redis_server


def view(product: Product, session: str) -> Viewer:
    return Viewer(product.url, session, product.token)


def connect(product: Product, session: str, **query: Any) -> Any:
    asked = "".join(f"&{name}={value}" for name, value in query.items())
    address = f"ws://127.0.0.1:{product.port}/ws/sessions/{session}/?as=json{asked}"
    headers = {"Authorization": f"Bearer {product.token}"}
    return websockets.connect(address, additional_headers=headers, max_size=None, proxy=None)


async def call(product: Product, *args: Any) -> Any:
    status, body = await asyncio.to_thread(product.call, *args)
    assert status < 400, body
    return body


async def say(product: Product, session: str, text: str) -> None:
    await call(product, "POST", f"/api/sessions/{session}/messages", {"text": text})


async def new_session(product: Product) -> str:
    return (await call(product, "POST", "/api/sessions", {}))["id"]


@contextlib.asynccontextmanager
async def following(*viewers: Viewer) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for viewer in viewers:
            await stack.enter_async_context(viewer)
        yield


async def until(condition: Any, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def product(tmp_path_factory, provider_server) -> Iterator[Product]:
    with Product(tmp_path_factory.mktemp("one"), provider_server.base_url) as product:
        yield product


@pytest.fixture(scope="module")
def redis() -> Iterator[Service]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def pair(tmp_path_factory, provider_server, redis) -> Iterator[tuple[Product, Product]]:
    """Two servers on one database and one Redis."""
    folder, url = tmp_path_factory.mktemp("two"), f"redis://127.0.0.1:{redis.port}/0"
    with (
        Product(folder, provider_server.base_url, REDIS_URL=url) as first,
        Product(folder, provider_server.base_url, REDIS_URL=url) as second,
    ):
        yield first, second


def sentence(words: int, every: int) -> str:
    return f"[[every:{every}]][[say:{' '.join(f'word{n}' for n in range(words))}]]"


def answers(events: list[dict[str, Any]]) -> list[str]:
    found = [e["data"]["message"]["content"] for e in events if e["type"] == "assistant/message"]
    return ["".join(block.get("text", "") for block in content) for content in found]


async def check(product: Product, viewer: Viewer) -> None:
    """What was seen is what is logged."""
    logged = await asyncio.to_thread(product.events, viewer.session_id)
    await until(lambda: viewer.seq >= logged[-1]["seq"] and viewer.status == "idle")
    assert viewer.log == logged
    assert viewer.breaches == []


async def test_streamed_text_is_the_logged_text(product):
    viewer = view(product, await new_session(product))
    async with following(viewer):
        await say(product, viewer.session_id, sentence(100, 8))
        await until(lambda: answers(viewer.log))
        assert viewer.blocks[(1, 1, 0)] == answers(viewer.log)[0]


async def test_stalled_reader_delays_no_one_and_is_told(product):
    session = await new_session(product)
    viewer = view(product, session)
    async with following(viewer), connect(product, session) as stalled:
        stalled.transport.pause_reading()
        await say(product, session, f"[[every:1]][[say:{'x' * 4000}]] " + "y" * 500_000)
        await say(product, session, "[[say:next]] " + "z" * 900_000)
        for n in range(12):
            await say(product, session, f"[[say:{n}]] " + "z" * 900_000)
        await until(lambda: len(answers(viewer.log)) == 14)
        stalled.transport.resume_reading()
        frames = []
        async with asyncio.timeout(60):
            async for text in stalled:
                frames.append(json.loads(text))
                if frames[-1]["t"] == "event" and frames[-1]["event"]["seq"] == viewer.seq:
                    break
    gaps = [frame for frame in frames if frame["t"] == "gap"]
    seqs = [frame["event"]["seq"] for frame in frames if frame["t"] == "event"]
    assert gaps
    assert seqs == [event["seq"] for event in viewer.log]


async def test_server_that_stops_says_good_bye(tmp_path, provider_server):
    with Product(tmp_path, provider_server.base_url) as product:
        session = await new_session(product)
        async with connect(product, session) as client:
            await client.recv()
            await asyncio.to_thread(product.terminate)
            frames = []
            with contextlib.suppress(websockets.ConnectionClosed):
                async for text in client:
                    frames.append(json.loads(text))
        assert frames[-1] == {"t": "bye", "code": "shutdown"}
        assert client.close_code == 4503


async def test_two_servers_show_the_same_stream(pair):
    first, second = pair
    session = await new_session(first)
    viewers = [view(first, session), view(second, session)]
    async with following(*viewers):
        await until(lambda: all(v.connects for v in viewers))
        await say(first, session, sentence(60, 20))
        await until(lambda: all(len(v.blocks.get((1, 1, 0), "")) > 50 for v in viewers))
        assert not any(answers(v.log) for v in viewers), "text came by the log, not by deltas"
        await until(lambda: all(answers(v.log) for v in viewers))
        for viewer in viewers:
            assert viewer.blocks[(1, 1, 0)] == answers(viewer.log)[0]
            await check(first, viewer)


async def test_redis_away_costs_latency_only(pair, redis):
    first, second = pair
    sessions = [await new_session(first) for _ in range(2)]
    viewers = [view(server, session) for server in pair for session in sessions]
    async with following(*viewers):
        await until(lambda: all(v.connects for v in viewers))
        for session in sessions:
            await say(second, session, sentence(120, 20))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(redis.restart)
        for viewer in viewers:
            viewer.cut()
        await until(lambda: all(answers(v.log) for v in viewers))
        await asyncio.to_thread(redis.stop)
        for session in sessions:
            await say(first, session, sentence(40, 20))
        await until(lambda: all(len(answers(v.log)) == 2 for v in viewers))
        await asyncio.to_thread(redis.start)
        for viewer in viewers:
            await check(first, viewer)
