"""A session's socket: every event once and in order, streaming text at the client's own length, whatever is lost."""

import asyncio
import random

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.delivery import reader, tape
from sidechat_web.runtime import commands, live
from sidechat_web.storage.models import Session

from .conftest import append

KEY = (1, 1, 0)


async def test_hello_comes_first_then_the_log_then_what_stands(connect, producer, session):
    await producer.whole_turn("answer")
    client = await connect(session)
    assert await client.next() == {"t": "hello", "session": session.pk, "seq": 7, "status": "idle", "turn": None}
    await client.until("merges")
    assert client.seqs == [0, 1, 2, 3, 5, 6, 7]
    assert [f["t"] for f in client.frames if f["t"] != "event"] == ["hello", "status", "queue", "merges"]


async def test_empty_session(connect, owner):
    session = await sync_to_async(commands.create)(owner, model="custom/scripted")
    client = await connect(session)
    assert (await client.next())["seq"] == -1
    await client.until("merges")


async def test_after_is_exclusive_and_chunks_come_when_asked_for(connect, producer, session):
    await producer.whole_turn("answer")
    client = await connect(session, after=3, chunks=1)
    await client.until("merges")
    assert client.seqs == [4, 5, 6, 7]


async def test_a_turn_as_it_happens(connect, producer, session):
    client = await connect(session)
    await client.until("merges")
    await producer.start()
    await client.until("status", status="running", turn=1, reason=None)
    producer.stream("Hello")
    assert (await client.until("delta"))["offset"] == 0
    producer.stream(", world")
    await client.until("delta")
    assert client.blocks[KEY] == "Hello, world"
    await producer.end()
    await client.event("turn/end")
    assert await client.until("status") == {
        "t": "status",
        "status": "idle",
        "turn": None,
        "reason": {"kind": "completed"},
    }
    assert client.seqs == sorted(set(client.seqs))


async def test_late_joiner_gets_the_block_so_far(connect, producer, session):
    first = await connect(session)
    await first.until("merges")
    await producer.start()
    producer.stream("one ")
    await producer.flush()
    producer.stream("two ")
    await first.until("delta")
    late = await connect(session)
    delta = await late.until("delta")
    assert (delta["offset"], delta["text"]) == (0, "one two ") or late.blocks[KEY] == "one "
    producer.stream("three")
    await producer.end()
    await late.event("turn/end")
    assert late.blocks[KEY] == "one two three"


async def test_who_joins_first_when_a_turn_runs_reads_the_log(connect, producer, session):
    await producer.start()
    producer.stream("before anyone looked, ")
    await producer.flush()
    producer.stream("not flushed yet, ")
    await asyncio.sleep(0.1)
    client = await connect(session)
    assert (await client.next())["turn"] == 1
    assert (await client.until("delta"))["text"] == "before anyone looked, "
    await asyncio.sleep(0.05)
    producer.stream("streamed while watched")
    await asyncio.sleep(0.05)
    await producer.flush()
    while client.blocks[KEY] != producer.text:
        await client.until("delta")


@pytest.mark.parametrize("seed", range(3))
async def test_lost_repeated_and_disordered_deltas_cost_no_text(connect, producer, session, seed):
    client, rnd = await connect(session), random.Random(seed)
    await client.until("merges")
    await producer.start()
    for _ in range(8):
        pieces = []
        for n in range(10):
            pieces.append(live.Delta(1, 1, 0, "text", len(producer.text), f"<{n}>"))
            producer.stream(f"<{n}>", lost=True)
        pieces = [piece for piece in pieces for _ in range(rnd.choice([0, 1, 1, 2]))]
        rnd.shuffle(pieces)
        for piece in pieces:
            live.delta(session.pk, piece)
        await asyncio.sleep(0.05)
        if rnd.random() < 0.5:
            await producer.flush()
    await producer.end()
    await client.event("turn/end")
    assert client.blocks[KEY] == producer.text


async def test_lost_bells_cost_no_event(connect, producer, session, monkeypatch):
    client = await connect(session)
    await client.until("merges")
    monkeypatch.setattr(live, "ring", lambda *_: None)
    await producer.whole_turn("never announced")
    await client.event("turn/end")
    assert client.seqs[-1] == 7


async def test_text_without_deltas_comes_from_the_log(connect, producer, session, monkeypatch):
    client = await connect(session)
    await client.until("merges")
    monkeypatch.setattr(live, "ring", lambda *_: None)
    await producer.start()
    producer.stream("only in the log", lost=True)
    await producer.flush()
    await client.until("delta")
    assert client.blocks[KEY] == "only in the log"


async def test_reconnect_resumes_from_seq_and_offset(connect, producer, session):
    client = await connect(session)
    await client.until("merges")
    await producer.start()
    producer.stream("before the cut, ")
    await producer.flush()
    await client.until("delta")
    last = client.seqs[-1]
    assert last == 3
    await client.close()
    producer.stream("during it, ")
    await producer.flush()
    again = await connect(session, after=last)
    assert (await again.until("delta"))["text"] == "before the cut, during it, "
    assert again.seqs == []


async def test_a_cut_across_the_end_of_a_turn_heals(connect, producer, session):
    client = await connect(session)
    await client.until("merges")
    await producer.start()
    await client.until("status")
    last = client.seqs[-1]
    await client.close()
    await producer.end()
    again = await connect(session, after=last)
    hello = await again.next()
    assert (hello["status"], hello["turn"]) == ("idle", None)
    assert (await again.until("status"))["reason"] == {"kind": "completed"}


async def test_queue_and_its_changes(connect, session):
    client = await connect(session)
    assert (await client.until("queue"))["items"] == []
    item = await sync_to_async(commands.say)(session, "wait for it")
    assert (await client.until("queue"))["items"] == [{"id": item.pk, "mode": "queue", "text": "wait for it"}]
    await sync_to_async(commands.remove_queued)(session, item.pk)
    assert (await client.until("queue"))["items"] == []


async def test_many_events_are_replayed_in_pages(connect, session, monkeypatch):
    monkeypatch.setattr(reader, "PAGE_EVENTS", 7)
    await append(session.pk, [d for n in range(1, 30) for d in (ev.turn_start(n), ev.turn_end(n, {"kind": "aborted"}))])
    client = await connect(session)
    await client.until("merges")
    assert client.seqs == list(range(59))


async def test_streams_of_two_sessions_do_not_mix(connect, producer, session, owner):
    other = await sync_to_async(commands.create)(owner, model="custom/scripted")
    from .conftest import Producer

    second = Producer(other)
    clients = [await connect(session), await connect(other)]
    for turn in range(20):
        await asyncio.gather(producer.start(f"A{turn}"), second.start(f"B{turn}"))
        for n in range(5):
            producer.stream(f"A{turn}.{n} ")
            second.stream(f"B{turn}.{n} ")
        await asyncio.gather(producer.end(), second.end())
    for client, mark, foreign in ((clients[0], "A", "B"), (clients[1], "B", "A")):
        await client.event("turn/end", turn=20)
        seen = [str(frame) for frame in client.frames]
        assert any(f"{mark}19.4 " in text for text in seen)
        assert not any(f"{foreign}{n}" in text for text in seen for n in range(20))


async def test_deleted_session_says_good_bye(connect, session):
    client = await connect(session)
    await client.until("merges")
    await sync_to_async(commands.delete)(session)
    assert await client.until("bye") == {"t": "bye", "code": "deleted"}
    assert await client.closed() == 4410


@pytest.mark.parametrize("chunks", [0, 1])
async def test_who_falls_behind_is_told_and_misses_nothing(connect, producer, session, monkeypatch, chunks):
    monkeypatch.setattr(tape, "MAX_FRAMES", 5)
    client = await connect(session, chunks=chunks)
    await client.until("merges")
    await producer.start()
    for n in range(40):
        producer.stream(f"{n} ")
        await producer.flush()
    await producer.end()
    await client.event("turn/end")
    assert client.seqs == sorted(set(client.seqs))
    total = (await sync_to_async(Session.objects.get)(pk=session.pk)).next_seq
    assert len(client.seqs) == (total if chunks else total - 40)


async def test_a_seq_that_the_log_does_not_have_is_its_head(connect, producer, session):
    client = await connect(session, after=10_000)
    await client.until("merges")
    await producer.whole_turn("answer")
    await client.event("turn/end")
