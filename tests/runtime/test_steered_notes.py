"""A note into the running turn: before its next request, after all tool results of the step, else at its end."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime.sidechat import frame, merge_back
from sidechat_web.runtime.tools import registry
from sidechat_web.runtime.tools.registry import Result, Tool
from tests.conftest import idle

from .side_story import asked_in, handbacks, merge, merges_of, rows, say, settled, talked, until_open

merge_selected = sync_to_async(merge_back.merge_selected)


@pytest.fixture
def hold(monkeypatch):
    """A tool `look` that answers when it is let go."""
    go = asyncio.Event()

    async def look(root, arguments):
        await go.wait()
        return Result("seen")

    tool = Tool("look", "Look.", {"type": "object", "properties": {}}, True, look)
    monkeypatch.setattr(registry, "sources", [lambda session, cwd: [tool]])
    return go


async def until_called(session, calls):
    async with asyncio.timeout(10):
        while [e.type for e in await rows(session)].count(ev.TOOL_CALL) < calls:
            await asyncio.sleep(0.02)


async def looking(owner):
    """A parent whose turn waits for two tools, and its side."""
    parent = await talked(owner)
    side = await asked_in(parent, "is it safe?")
    await say(parent, "[[call:look {}]][[call:look {}]] go")
    await until_called(parent, 2)
    return parent, side


def types_around(log, note):
    at = log.index(note)
    return [e.type for e in log[at - 3 : at]], log[at + 1].type


async def test_it_enters_between_the_last_result_and_the_next_request(running, owner, provider, hold):
    parent, side = await looking(owner)
    made = await merge(side, text="Look at the left one.", steer=True)
    assert made.public_state == "pending"
    hold.set()
    await idle(parent)
    log = await rows(parent)
    [note] = handbacks(log)
    before, after = types_around(log, note)
    assert before == [ev.TOOL_RESULT, ev.STEP_END, ev.STEP_START]
    assert after == ev.ASSISTANT_MESSAGE
    sent = json.loads(provider.bodies[-1])["messages"]
    assert [m["role"] for m in sent[-4:]] == ["assistant", "tool", "tool", "user"]
    assert sent[-1]["content"] == ev.text_of(note.data)
    assert (await settled(made))["state"] == "delivered"


async def test_without_steer_it_waits_for_the_end_of_the_turn(running, owner, provider, hold):
    parent, side = await looking(owner)
    await merge(side, text="No hurry.")
    hold.set()
    await idle(parent)
    log = await rows(parent)
    [note] = handbacks(log)
    assert log[log.index(note) - 1].type == ev.TURN_END
    assert "No hurry" not in provider.bodies[-1].decode()


async def test_a_turn_that_makes_no_further_request_gets_it_at_its_end(running, owner):
    parent = await talked(owner)
    side = await asked_in(parent, "is it safe?")
    await say(parent, "[[every:30]] " + "word " * 12)
    await say(parent, "queued")
    await until_open(parent)
    await merge(side, text="Too late.", steer=True)
    await idle(parent)
    log = await rows(parent)
    [note] = handbacks(log)
    at = log.index(note)
    assert (log[at - 1].type, log[at + 1].type) == (ev.TURN_END, ev.TURN_START)


async def test_a_pending_note_can_be_sent_into_the_turn_after_all(running, owner, hold):
    parent, side = await looking(owner)
    waiting = await merge(side, text="On second thought.")
    hastened = await merge(side, text="On second thought.", steer=True)
    assert (hastened.pk, hastened.public_state) == (waiting.pk, "pending")
    hold.set()
    await idle(parent)
    log = await rows(parent)
    [note] = handbacks(log)
    assert types_around(log, note)[1] == ev.ASSISTANT_MESSAGE


async def test_a_note_that_is_still_drafted_can_be_sent_into_the_turn(running, owner, provider, hold):
    parent, side = await looking(owner)
    provider.handback = "[[Drafted.]]"
    first = await merge(side)
    second = await merge(side, steer=True)
    assert first.pk == second.pk
    async with asyncio.timeout(10):
        while (await merges_of(side))[0]["state"] == "drafting":
            await asyncio.sleep(0.02)
    hold.set()
    await idle(parent, side)
    log = await rows(parent)
    [note] = handbacks(log)
    assert types_around(log, note)[1] == ev.ASSISTANT_MESSAGE


async def test_notes_keep_their_order_and_go_before_what_the_user_steers(running, owner, provider, hold):
    parent, side = await looking(owner)
    other = await asked_in(parent, "is it fast?")
    await say(parent, "steered", mode="steer")
    await merge(side, text="First.", steer=True)
    await merge_selected([side, other], text="Second.", steer=True)
    hold.set()
    await idle(parent)
    sent = [m["content"] for m in json.loads(provider.bodies[-1])["messages"]][-3:]
    assert sent[0].endswith("First.") and sent[1].endswith("Second.") and sent[2] == "steered"
    assert len(handbacks(await rows(parent))) == 2
    assert not [e for e in await rows(parent) if frame.form_of(e) == frame.HANDBACK_REQUEST]
