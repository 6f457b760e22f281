"""The sockets of real servers: back-pressure, shutdown, two processes on one Redis, sockets and Redis cut at random."""

import asyncio
import contextlib
import json
import random
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import websockets

from tests.faults.product import Product, free_port, wait_for


class Watcher:
    """Follows one session by the protocol, over as many connections as it takes."""

    def __init__(self, product: Product, session: str) -> None:
        self.product, self.session = product, session
        self.seq = -1
        self.blocks: dict[tuple[int, int, int], str] = {}
        self.events: list[dict[str, Any]] = []
        self.status = ""
        self.connections = 0
        self._socket: Any = None

    async def follow(self) -> None:
        while True:
            with contextlib.suppress(OSError, websockets.WebSocketException):
                async with connect(self.product, self.session, after=self.seq) as self._socket:
                    self.connections += 1
                    self.blocks.clear()
                    async for text in self._socket:
                        self._apply(json.loads(text))
            await asyncio.sleep(random.uniform(0, 0.05))

    def cut(self) -> None:
        if self._socket is not None:
            self._socket.transport.abort()

    def _apply(self, frame: dict[str, Any]) -> None:
        if frame["t"] == "event":
            event = frame["event"]
            assert event["seq"] > self.seq, "an event came twice, or out of order"
            self.seq = event["seq"]
            self.events.append(event)
        elif frame["t"] == "delta":
            key = (frame["turn"], frame["step"], frame["index"])
            shown = self.blocks.get(key, "")
            assert frame["offset"] == len(shown), "a delta that is not at the client's own length"
            self.blocks[key] = shown + frame["text"]
        elif frame["t"] in ("hello", "status"):
            self.status = frame["status"]


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
async def following(*watchers: Watcher) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(watcher.follow()) for watcher in watchers]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()


async def until(condition: Any, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def product(tmp_path_factory, provider_server) -> Iterator[Product]:
    with Product(tmp_path_factory.mktemp("one"), provider_server.base_url) as product:
        yield product


class Redis:
    """A server of our own; `restart` forgets all its connections."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        binary = shutil.which("redis-server")
        assert binary, "redis-server is needed"
        command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._answers, 10, lambda: "redis-server did not start")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as s:
            s.sendall(b"PING\r\n")
            return s.recv(7) == b"+PONG\r\n"
        return False


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def pair(tmp_path_factory, provider_server, redis) -> Iterator[tuple[Product, Product]]:
    """Two servers on one database and one Redis."""
    folder = tmp_path_factory.mktemp("two")
    with (
        Product(folder, provider_server.base_url, REDIS_URL=redis.url) as first,
        Product(folder, provider_server.base_url, REDIS_URL=redis.url) as second,
    ):
        yield first, second


def sentence(words: int, every: int) -> str:
    return f"[[every:{every}]][[say:{' '.join(f'word{n}' for n in range(words))}]]"


def answers(events: list[dict[str, Any]]) -> list[str]:
    found = [e["data"]["message"]["content"] for e in events if e["type"] == "assistant/message"]
    return ["".join(block.get("text", "") for block in content) for content in found]


async def check(product: Product, watcher: Watcher) -> None:
    """What was seen is what is logged."""
    logged = await asyncio.to_thread(product.events, watcher.session)
    await until(lambda: watcher.seq >= logged[-1]["seq"])
    assert watcher.events == logged
    assert watcher.status == "idle"


async def test_cut_sockets_lose_nothing(product):
    sessions = [await new_session(product) for _ in range(4)]
    watchers = [Watcher(product, session) for session in sessions]
    rnd = random.Random(3)
    async with following(*watchers):
        for session in sessions:
            await say(product, session, sentence(80, 25))
            await say(product, session, sentence(20, 10))
        while any(len(answers(w.events)) < 2 for w in watchers):
            await asyncio.sleep(rnd.uniform(0, 0.1))
            rnd.choice(watchers).cut()
        for watcher in watchers:
            await check(product, watcher)
    assert min(w.connections for w in watchers) > 2


async def test_streamed_text_is_the_logged_text(product):
    watcher = Watcher(product, await new_session(product))
    async with following(watcher):
        await say(product, watcher.session, sentence(100, 8))
        await until(lambda: answers(watcher.events))
        assert watcher.blocks[(1, 1, 0)] == answers(watcher.events)[0]


async def test_stalled_reader_delays_no_one_and_is_told(product):
    session = await new_session(product)
    watcher = Watcher(product, session)
    async with following(watcher), connect(product, session) as stalled:
        stalled.transport.pause_reading()
        await say(product, session, f"[[every:1]][[say:{'x' * 4000}]] " + "y" * 500_000)
        await say(product, session, "[[say:next]] " + "z" * 900_000)
        for n in range(12):
            await say(product, session, f"[[say:{n}]] " + "z" * 900_000)
        await until(lambda: len(answers(watcher.events)) == 14)
        stalled.transport.resume_reading()
        frames = []
        async with asyncio.timeout(60):
            async for text in stalled:
                frames.append(json.loads(text))
                if frames[-1]["t"] == "event" and frames[-1]["event"]["seq"] == watcher.seq:
                    break
    gaps = [frame for frame in frames if frame["t"] == "gap"]
    seqs = [frame["event"]["seq"] for frame in frames if frame["t"] == "event"]
    assert gaps
    assert seqs == [event["seq"] for event in watcher.events]


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
    watchers = [Watcher(first, session), Watcher(second, session)]
    async with following(*watchers):
        await until(lambda: all(w.connections for w in watchers))
        await say(first, session, sentence(60, 20))
        await until(lambda: all(len(w.blocks.get((1, 1, 0), "")) > 50 for w in watchers))
        assert not any(answers(w.events) for w in watchers), "text came by the log, not by deltas"
        await until(lambda: all(answers(w.events) for w in watchers))
        for watcher in watchers:
            assert watcher.blocks[(1, 1, 0)] == answers(watcher.events)[0]
            await check(first, watcher)


async def test_redis_away_costs_latency_only(pair, redis):
    first, second = pair
    sessions = [await new_session(first) for _ in range(2)]
    watchers = [Watcher(server, session) for server in pair for session in sessions]
    async with following(*watchers):
        await until(lambda: all(w.connections for w in watchers))
        for session in sessions:
            await say(second, session, sentence(120, 20))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(redis.restart)
        for watcher in watchers:
            watcher.cut()
        await until(lambda: all(answers(w.events) for w in watchers))
        await asyncio.to_thread(redis.stop)
        for session in sessions:
            await say(first, session, sentence(40, 20))
        await until(lambda: all(len(answers(w.events)) == 2 for w in watchers))
        await asyncio.to_thread(redis.start)
        for watcher in watchers:
            await check(first, watcher)
