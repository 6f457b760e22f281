"""The doorbell: slow text at once, fast text gathered for each session, nothing lost on the way."""

import asyncio

import pytest

from sidechat_web.runtime import live
from sidechat_web.runtime.live import Delta


class Heard:
    def __init__(self) -> None:
        self.bells: list[tuple[str, str]] = []
        self.deltas: list[tuple[str, Delta]] = []

    def rang(self, session_id: str, topic: live.Topic) -> None:
        self.bells.append((session_id, topic))

    def streamed(self, session_id: str, delta: Delta) -> None:
        self.deltas.append((session_id, delta))


@pytest.fixture
async def heard():
    listener = Heard()
    stop = live.listen(listener)
    yield listener
    stop()
    await asyncio.sleep(2 * live.GATHER_SECONDS)


def piece(offset: int, text: str, index: int = 0) -> Delta:
    return Delta(1, 1, index, "text", offset, text)


async def test_slow_text_is_passed_on_at_once(heard):
    for n in range(3):
        live.delta("slow", piece(n, "x"))
        assert len(heard.deltas) == n + 1
        await asyncio.sleep(1.5 * live.GATHER_SECONDS)


async def test_fast_text_is_gathered_by_block(heard):
    for n in range(5):
        live.delta("fast", piece(n, str(n)))
    live.delta("fast", piece(0, "other", index=1))
    assert heard.deltas == [("fast", piece(0, "0"))]
    await asyncio.sleep(2 * live.GATHER_SECONDS)
    assert heard.deltas[1:] == [("fast", piece(1, "1234")), ("fast", piece(0, "other", index=1))]


async def test_sessions_are_gathered_apart(heard):
    live.delta("one", piece(0, "a"))
    live.delta("two", piece(0, "b"))
    assert heard.deltas == [("one", piece(0, "a")), ("two", piece(0, "b"))]


async def test_bells_are_heard_from_any_thread(heard):
    await asyncio.to_thread(live.ring, "session", "log")
    assert heard.bells == [("session", "log")]


async def test_who_stopped_listening_hears_nothing():
    listener = Heard()
    live.listen(listener)()
    live.ring("session", "log")
    assert listener.bells == []
