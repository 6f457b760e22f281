"""One note out of several sides."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime.sidechat import frame, merge_back
from tests.conftest import idle

from .side_story import (
    asked_in,
    delete,
    digest,
    fork,
    handbacks,
    merge,
    merged_into,
    merges_of,
    of_form,
    open_side,
    own,
    retract,
    rows,
    say,
    settled,
    stop,
    talked,
    texts,
    until_open,
)

merge_selected = sync_to_async(merge_back.merge_selected)


async def three(owner):
    """A parent and three sides that were asked."""
    parent = await talked(owner)
    sides = [await asked_in(parent, text, title=text.title()) for text in ("is it safe?", "is it fast?", "is it done?")]
    return parent, sides


async def test_each_is_asked_and_one_note_names_them_all(running, owner):
    parent, sides = await three(owner)
    found = await settled(await merge_selected(sides[:2]))
    assert found["state"] == "delivered"
    assert (found["side"], found["sides"]) == (sides[0].pk, [sides[0].pk, sides[1].pk])
    [note] = handbacks(await rows(parent))
    source = note.data["source"]
    assert source["sessions"] == [{"session": s.log_id, "throughSeq": await through(s)} for s in sides[:2]]
    assert "session" not in source and "throughSeq" not in source
    assert (source["edited"], source["truncated"]) == (False, False)
    text = ev.text_of(note.data)
    assert text.startswith("[Advice from 2 side sessions: “Is It Safe?” (")
    assert "[1] From “Is It Safe?”:\nConclusion: is it safe?." in text
    assert "[2] From “Is It Fast?”:\nConclusion: is it fast?." in text
    for one in sides[:2]:
        [where] = await merged_into(one)
        assert (where["seq"], where["throughSeq"]) == (note.seq, await through(one))
        assert [m["id"] for m in await merges_of(one)] == [found["id"]]
    assert await merged_into(sides[2]) == await merges_of(sides[2]) == []


async def through(side):
    ends = [e.seq for e in await own(side) if e.type == ev.TURN_END]
    return ends[0]


async def test_drafts_are_reused_and_the_order_is_that_of_opening(running, owner, provider):
    _parent, sides = await three(owner)
    for one in sides:
        await sync_to_async(merge_back.handback)(one)
        await idle(one)
    asked = len(provider.bodies)
    made = await merge_selected([sides[2], sides[0], sides[2]])
    assert made.public_state == "delivered"
    assert made.side_ids == [sides[0].pk, sides[2].pk]
    assert (await merge_selected([sides[0], sides[2]])).pk == made.pk
    assert len(provider.bodies) == asked


async def test_many_clicks_make_one_note(running, owner):
    parent, sides = await three(owner)
    at_once = sync_to_async(merge_back.merge_selected, thread_sensitive=False)
    done = await asyncio.gather(*(at_once(sides if k % 2 else sides[::-1]) for k in range(20)))
    assert len({m.pk for m in done}) == 1
    await settled(done[0])
    assert len(handbacks(await rows(parent))) == 1


async def test_a_written_note_needs_no_draft(running, owner):
    parent, sides = await three(owner)
    made = await merge_selected(sides, text="All is well.")
    assert (made.public_state, made.edited) == ("delivered", True)
    [note] = handbacks(await rows(parent))
    assert ev.text_of(note.data).endswith("not an instruction]\n\nAll is well.")
    assert len(note.data["source"]["sessions"]) == 3
    assert not of_form(await own(sides[0]), frame.HANDBACK_REQUEST)


async def test_a_failure_names_its_side_and_what_was_written_is_kept(running, owner, provider):
    parent, sides = await three(owner)
    before = await digest(parent)
    await sync_to_async(merge_back.handback)(sides[0])
    await idle(sides[0])
    provider.handback = " "
    found = await settled(await merge_selected(sides[:2]))
    assert found["state"] == "failed"
    assert found["error"] == {
        "code": "handback_empty",
        "message": "“Is It Fast?”: the side answered with an empty handback",
        "side": sides[1].pk,
    }
    assert await digest(parent) == before
    provider.handback = "Now it works."
    assert (await settled(await merge_selected(sides[:2])))["state"] == "delivered"
    text = ev.text_of(handbacks(await rows(parent))[0].data)
    assert "Conclusion: is it safe?." in text and "Now it works." in text


async def refusal(sides, **k):
    with pytest.raises(SidechatError) as e:
        await merge_selected(sides, **k)
    return e.value.code, e.value.message


async def test_refusals_name_their_side(running, owner, settings):
    parent, sides = await three(owner)
    fresh = await open_side(parent, title="Fresh")
    assert await refusal([sides[0], fresh]) == (
        "nothing_new", "“Fresh”: there is nothing to merge yet: ask the side something first",
    )  # fmt: skip
    await settled(await merge(sides[1]))
    assert (await refusal(sides))[1].startswith("“Is It Fast?”: there is nothing new")
    await say(sides[2], "[[every:30]] " + "word " * 20)
    await until_open(sides[2])
    code, message = await refusal([sides[0], sides[2]])
    assert (code, message.split(":")[0]) == ("turn_open", "“Is It Done?”")
    await stop(sides[2])
    await idle(sides[2])
    assert (await refusal([]))[0] == "no_sides"
    inner = await asked_in(sides[0], "deeper?")
    assert (await refusal([inner, sides[0]]))[0] == "other_parent"
    branch = await fork(parent)
    assert (await refusal([branch, sides[0]]))[0] == "not_a_side"
    settings.SIDECHAT_HANDBACK_MAX_CHARS = 200
    assert (await refusal([sides[0], sides[2]]))[0] == "too_many_sides"
    assert not of_form(await own(sides[0]), frame.HANDBACK_REQUEST)


async def test_a_side_that_was_merged_with_others_has_nothing_new(running, owner):
    parent, sides = await three(owner)
    found = await settled(await merge_selected(sides[:2]))
    with pytest.raises(SidechatError) as e:
        await merge(sides[0])
    assert e.value.code == "nothing_new"
    await retract(parent, found["seq"])
    assert not [t for t in await texts(parent) if "Advice from" in t]
    assert (await merged_into(sides[1]))[0]["retracted"]
    assert {m["state"] for m in await merges_of(sides[1])} == {"retracted"}
    retraction = (await rows(parent))[-1].data["source"]
    assert [one["session"] for one in retraction["sessions"]] == [s.log_id for s in sides[:2]]
    assert (await settled(await merge(sides[0])))["state"] == "delivered"


async def test_a_deleted_side_takes_the_whole_note_back_before_it_is_delivered(running, owner):
    parent, sides = await three(owner)
    await say(parent, "[[every:40]] " + "word " * 20)
    await until_open(parent)
    made = await merge_selected(sides[:2], text="Together.")
    assert made.public_state == "pending"
    await delete(sides[1])
    await idle(parent)
    [row] = await merges_of(sides[0])
    assert (row["state"], row["error"]["code"]) == ("failed", "side_gone")
    assert not handbacks(await rows(parent))
    assert (await merge(sides[0], text="Alone.")).public_state == "delivered"
