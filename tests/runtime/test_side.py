"""The side session: fork, frame, first request, gate, merge, retract, promote, delete."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError, TurnOpen
from sidechat_web.runtime.sidechat import frame, merge_back, side
from sidechat_web.storage import log
from sidechat_web.storage.models import Session
from tests.conftest import idle

from .side_story import (
    asked,
    count_rows,
    create,
    delete,
    digest,
    fork,
    handbacks,
    knows,
    merge,
    merged_into,
    open_side,
    promote,
    retract,
    rows,
    say,
    settled,
    talked,
    texts,
    until_open,
)

# --- fork and framing ---


@pytest.mark.parametrize("turns", [1, 2, 30])
async def test_first_request_extends_the_parents_last(running, owner, provider, turns):
    parent = await talked(owner, turns)
    before, last = await digest(parent), json.loads(provider.bodies[-1])
    child = await open_side(parent, text="why?")
    await idle(child)
    first = json.loads(provider.bodies[-1])
    n = len(last["messages"])
    assert first["messages"][:n] == last["messages"]
    assert [m["role"] for m in first["messages"][n:]] == ["assistant", "user", "user"]
    assert {k: v for k, v in first.items() if k != "messages"} == {k: v for k, v in last.items() if k != "messages"}
    assert await digest(parent) == before
    own = await rows(child, after=child.seed_length - 1)
    assert frame.form_of(own[0]) == frame.ADVISOR
    assert [e.type for e in own].count("context/message") == 1
    assert "request/header" not in [e.type for e in own]
    inherited = (await rows(child, chunks=True))[: child.seed_length]
    assert inherited == (await rows(parent, chunks=True))[: child.seed_length]


async def test_parent_without_a_request_hands_on_what_is_pinned(running, owner, provider):
    parent = await create(owner, system="Be brief.")
    child = await open_side(parent, text="hello")
    await idle(child)
    assert child.seed_length == 0
    assert json.loads(provider.bodies[-1])["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_fork_while_the_parent_streams_excludes_the_open_turn(running, owner):
    parent = await talked(owner)
    stable = parent.next_seq
    await say(parent, "[[every:20]] running MARKER-MAIN")
    await until_open(parent)
    child = await open_side(parent, text="side MARKER-SIDE")
    await idle(child, parent)
    assert child.seed_length == stable
    assert not [t for t in await texts(child) if "MARKER-MAIN" in t]
    assert not [t for t in await texts(parent) if "MARKER-SIDE" in t]
    assert (await knows(child))["running_turn"] == 2
    assert (await knows(child))["behind"] == 1


async def test_fork_in_the_open_turn_is_refused(running, owner):
    parent = await talked(owner)
    await say(parent, "[[every:20]] a b c d e f g h i j k l")
    await until_open(parent)
    with pytest.raises(TurnOpen):
        await open_side(parent, at_seq=parent.next_seq - 1)
    await idle(parent)


async def test_fork_writes_no_more_rows_however_long_the_source(running, owner):
    short, long = await talked(owner, 1), await talked(owner, 1)
    await sync_to_async(lengthen)(long, 100_000)
    before = await count_rows()
    await open_side(short)
    between = await count_rows()
    child = await open_side(long)
    assert await count_rows() - between == between - before == 1
    assert child.seed_length > 100_000


def lengthen(session, events):
    """Give `session` another turn with that many stream chunks."""
    log.append(session.pk, [ev.turn_start(2)])
    chunk = {"turn": 2, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "x"}}
    for _ in range(events // 1000):
        log.append_chunks([log.ChunkBatch(session.pk, 2, [(0, chunk)] * 1000)])
    log.append(session.pk, [ev.turn_end(2, {"kind": "completed"})])


async def test_sides_of_sides_see_root_middle_and_own(running, owner):
    session = await talked(owner)
    for depth in range(4):
        session = await open_side(session, text=f"depth {depth}")
        await idle(session)
    found = await texts(session)
    assert [t for t in found if t.startswith(("main", "depth"))] == [
        "main question 1", "depth 0", "depth 1", "depth 2", "depth 3",
    ]  # fmt: skip


async def test_ordinary_fork_of_a_side_lifts_the_framing(running, owner):
    parent = await talked(owner)
    child = await open_side(parent, text="why?")
    await idle(child)
    branch = await fork(child, text="now do it")
    await idle(branch)
    own = await rows(branch, after=branch.seed_length - 1)
    assert frame.form_of(own[0]) == frame.LIFT
    assert not await sync_to_async(side.is_advisor)(branch)
    assert await sync_to_async(side.is_advisor)(child)


# --- the gate ---


async def test_a_side_cannot_act_and_a_promoted_one_is_not_gated(running, owner):
    parent = await talked(owner)
    child = await open_side(parent, text='[[call:write_file {"path": "x"}]]')
    await idle(child)
    [result] = [e for e in await rows(child) if e.type == ev.TOOL_RESULT]
    assert result.data["error"]["code"] == "DENIED"
    await promote(child)
    assert child.pk and not await sync_to_async(side.is_advisor)(child)
    await say(child, '[[call:write_file {"path": "y"}]]')
    await idle(child)
    assert [e for e in await rows(child) if e.type == ev.TOOL_RESULT][-1].data["error"]["code"] != "DENIED"


# --- merge ---


async def test_merge_into_an_idle_parent(running, owner, provider):
    parent, child = await asked(owner)
    found = await settled(await merge(child))
    assert found["state"] == "delivered"
    [note] = handbacks(await rows(parent))
    assert note.seq == found["seq"] == (await rows(parent))[-1].seq
    source = note.data["source"]
    assert source["session"] == child.log_id and source["plugin"] == "sidechat" and not source["edited"]
    text = ev.text_of(note.data)
    assert text.startswith("[Advice from the side session “is it safe?”") and "Conclusion: is it safe?." in text
    await say(parent, "go on")
    await idle(parent)
    sent = [m["content"] for m in json.loads(provider.bodies[-1])["messages"]]
    assert sent.count(text) == 1 and sent.index(text) == len(sent) - 2
    [where] = await merged_into(child)
    assert where["seq"] == note.seq and not where["retracted"]


async def test_merge_into_a_running_parent_waits_for_the_turn_and_precedes_the_queue(running, owner):
    parent, child = await asked(owner)
    await say(parent, "[[every:30]] long " + "word " * 12)
    await say(parent, "queued")
    await until_open(parent)
    found = await settled(await merge(child))
    assert found["state"] == "delivered"
    await idle(parent)
    log = await rows(parent)
    [note] = handbacks(log)
    at = log.index(note)
    assert log[at - 1].type == ev.TURN_END and log[at + 1].type == ev.TURN_START


async def test_fifty_concurrent_merges_make_one_note(running, owner):
    parent, child = await asked(owner)
    done = await asyncio.gather(*(sync_to_async(merge_back.merge, thread_sensitive=False)(child) for _ in range(50)))
    assert len({m.pk for m in done}) == 1
    await settled(done[0])
    again = await merge(child)
    assert again.pk == done[0].pk
    assert len(handbacks(await rows(parent))) == 1


@pytest.mark.parametrize("answer", ["x" * 50_000, "👩‍👩‍👧‍👦" * 9000, "é́́́" * 12_000, "One sentence. " * 4000])
async def test_note_is_capped_whatever_the_model_answers(running, owner, provider, settings, answer):
    settings.SIDECHAT_HANDBACK_MAX_CHARS = 400
    provider.handback = answer
    parent, child = await asked(owner)
    await settled(await merge(child))
    [note] = handbacks(await rows(parent))
    text = ev.text_of(note.data)
    assert len(text) <= 400 and note.data["source"]["truncated"] and text.endswith("[…]")


async def test_what_is_not_allowed_is_refused_with_its_reason(running, owner):
    parent = await talked(owner)
    child = await open_side(parent)
    with pytest.raises(SidechatError) as e:
        await merge(child)
    assert e.value.code == "nothing_new"
    await say(child, "[[every:30]] a b c d e f g h")
    await until_open(child)
    with pytest.raises(TurnOpen):
        await merge(child)
    await idle(child)
    await delete(parent, "keep")
    child = await sync_to_async(Session.objects.select_related("parent").get)(pk=child.pk)
    with pytest.raises(SidechatError) as e:
        await merge(child)
    assert e.value.code == "parent_gone"
    assert [t for t in await texts(child) if t == "main question 1"]


async def test_second_merge_needs_something_new_and_says_so_to_the_model(running, owner, provider):
    parent, child = await asked(owner)
    await settled(await merge(child))
    assert (await merge(child)).public_state == "delivered"
    await say(child, "and now?")
    await idle(child)
    await settled(await merge(child))
    assert len(handbacks(await rows(parent))) == 2
    requests = [e for e in await rows(child) if frame.form_of(e) == frame.HANDBACK_REQUEST]
    assert [frame.AGAIN_TEXT in ev.text_of(e.data) for e in requests] == [False, True]


async def test_user_written_note_needs_no_draft(running, owner):
    parent, child = await asked(owner)
    first = await merge(child, text="My own words.")
    assert first.public_state == "delivered" and first.edited
    assert (await merge(child, text=" My own words. ")).pk == first.pk
    second = await merge(child, text="Other words.")
    assert second.pk != first.pk
    assert [e.data["source"]["edited"] for e in handbacks(await rows(parent))] == [True, True]
    assert not [e for e in await rows(child) if frame.form_of(e) == frame.HANDBACK_REQUEST]


async def test_failed_handback_leaves_the_parent_and_can_be_retried(running, owner, provider):
    parent, child = await asked(owner)
    before = await digest(parent)
    provider.handback = " "
    found = await settled(await merge(child))
    assert found["state"] == "failed" and found["error"]["code"] == "handback_empty"
    assert await digest(parent) == before
    provider.handback = "Now it works."
    assert (await settled(await merge(child)))["state"] == "delivered"


async def test_retract_takes_the_note_off_the_surface_and_allows_the_merge_again(running, owner):
    parent, child = await asked(owner)
    found = await settled(await merge(child))
    await retract(parent, found["seq"])
    assert frame.RETRACTION_TEXT in await texts(parent)
    assert not [t for t in await texts(parent) if "Advice from" in t]
    assert len(handbacks(await rows(parent))) == 1
    with pytest.raises(SidechatError) as e:
        await retract(parent, found["seq"])
    assert e.value.code == "not_on_surface"
    again = await settled(await merge(child))
    assert again["state"] == "delivered" and again["seq"] > found["seq"]


async def test_pending_merge_can_be_cancelled(running, owner):
    parent, child = await asked(owner)
    await say(parent, "[[every:40]] " + "word " * 12)
    await until_open(parent)
    pending = await merge(child, text="too early")
    assert pending.public_state == "pending"
    await sync_to_async(merge_back.cancel)(child, pending.pk)
    await idle(parent)
    assert not handbacks(await rows(parent))
    assert (await merge(child, text="too early")).public_state == "delivered"


# --- delete ---


async def test_delete_asks_about_sides_and_keeps_their_history(running, owner):
    parent, child = await asked(owner)
    with pytest.raises(SidechatError) as e:
        await delete(parent)
    assert e.value.code == "has_sides"
    before = await texts(child)
    assert await delete(parent, "keep") == {"deleted": [parent.pk], "kept": [child.pk]}
    assert await texts(child) == before
    assert await count_rows() > 0
    await delete(child)
    assert await count_rows() == 0


async def test_delete_with_sides_stops_what_runs(running, owner):
    parent, child = await asked(owner)
    await say(child, "[[every:50]] " + "word " * 40)
    await until_open(child)
    done = await delete(parent, "delete")
    assert set(done["deleted"]) == {parent.pk, child.pk}
    async with asyncio.timeout(10):
        while await count_rows():
            await asyncio.sleep(0.05)
