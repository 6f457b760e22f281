"""Compaction: asked for, due, on overflow; whole or not at all."""

import asyncio
import json

from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, requests
from sidechat_web.runtime.providers import catalog, facts, listing
from sidechat_web.runtime.sidechat import side
from sidechat_web.storage import reading
from tests.conftest import idle

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
compact = sync_to_async(commands.compact)


@sync_to_async
def rows(session):
    session.refresh_from_db()
    return list(reading.events(session))


@sync_to_async
def texts(session):
    return [ev.text_of(m) for m in reading.surface(session).messages()]


async def talked(owner, turns):
    session = await create(owner)
    for n in range(turns):
        await say(session, f"question {n + 1}")
        await idle(session)
    return session


async def compacted(session, count=1):
    await compact(session)
    while [e.type for e in await rows(session)].count(ev.COMPACTION_END) < count:
        pass
    return await rows(session)


async def test_the_oldest_part_becomes_one_summary(running, owner, provider):
    session = await talked(owner, 5)
    log = await compacted(session)
    summary = next(i for i, e in enumerate(log) if e.type == ev.COMPACTION_SUMMARY)
    assert [e.type for e in log[summary - 1 : summary + 3]] == [
        "compaction/start", "compaction/summary", "context/message", "compaction/end",
    ]  # fmt: skip
    found = await texts(session)
    assert found[0].startswith("[Summary of the earlier conversation]")
    assert found[1:] == ["question 4", "You said: question 4", "question 5", "You said: question 5"]
    asked, before = json.loads(provider.bodies[-1]), json.loads(provider.bodies[-2])
    assert asked["messages"][:7] == before["messages"][:7]
    await say(session, "go on")
    await idle(session)
    assert (await sync_to_async(requests.body)(session, 6)).encode() == provider.bodies[-1]
    again = await compacted(session, 2)
    assert again[-1].data.get("error") is None
    assert len([t for t in await texts(session) if t.startswith("[Summary")]) == 1


async def test_a_side_of_a_compacted_session_inherits_the_summary_and_says_so(running, owner, provider):
    session = await talked(owner, 4)
    await compacted(session)
    child = await sync_to_async(side.open_side)(session, text="why?")
    await idle(child)
    assert "question 1" not in [m["content"] for m in json.loads(provider.bodies[-1])["messages"]]
    assert (await sync_to_async(side.knows)(child))["summary"] == [1, 2]


async def test_failed_compaction_changes_nothing(running, owner, provider, monkeypatch):
    session = await talked(owner, 4)
    before = await texts(session)
    await say(session, "[[status:400]]")
    await idle(session)
    before = await texts(session)
    monkeypatch.setattr("sidechat_web.runtime.compaction.INSTRUCTION", "[[status:500]]")
    log = await compacted(session)
    assert log[-1].data["error"]["message"] == "scripted 500"
    assert await texts(session) == before


async def test_a_full_window_is_compacted_before_the_request(running, owner, monkeypatch):
    monkeypatch.setattr(catalog, "window", lambda config: 100)
    session = await talked(owner, 4)
    assert ev.COMPACTION_SUMMARY in [e.type for e in await rows(session)]
    assert session.last_reason == {"kind": "completed"}


async def test_a_window_that_only_the_server_knows_is_asked_for(running, owner, provider, monkeypatch):
    monkeypatch.setattr(facts, "_listed", {})
    monkeypatch.setattr(listing, "_answers", {})
    provider.models = [{"id": "scripted", "object": "model", "context_length": 100}]
    session = await talked(owner, 2)
    async with asyncio.timeout(20):
        while facts.window("custom", "scripted") is None:
            await asyncio.sleep(0.02)
    for text in ("and on", "and on"):
        await say(session, text)
        await idle(session)
    assert ev.COMPACTION_SUMMARY in [e.type for e in await rows(session)]


async def test_overflow_is_compacted_and_tried_once_more(running, owner, provider):
    session = await talked(owner, 4)
    await say(session, "[[overflow]]")
    await idle(session)
    log = await rows(session)
    assert session.last_reason == {"kind": "completed"}
    assert [e.type for e in log].count(ev.LLM_RETRY) == 1
    last = await sync_to_async(requests.list_requests)(session)
    assert [r["attempt"] for r in last[-2:]] == [1, 2]
