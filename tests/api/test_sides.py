"""Sides over the API against a running agent: several into one note, what a side knows, renewal."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from tests.conftest import idle

from .agents import caller_for, merges_of, notes_in, open_side, refusal, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("running")]


@pytest.fixture
async def ann(owner):
    return await caller_for(owner)


@pytest.fixture
async def other(main):
    made = await open_side(main, title="Speed", text="is it fast?")
    await idle(made)
    return made


@pytest.mark.parametrize("path", ["side", "other", "main"])
async def test_one_note_out_of_several_from_any_path(ann, main, side, other, path):
    at = {"side": side, "other": other, "main": main}[path]
    status, body = await ann.call("POST", f"/sessions/{at.pk}/merge", {"sides": [other.pk, side.pk]})
    assert (status, body["session"], body["edited"]) == (200, main.pk, False)
    [note] = await notes_in(ann, main)
    assert [one["session"] for one in note["source"]["sessions"]] == [side.log_id, other.log_id]
    [row] = await merges_of(ann, main)
    assert (row["sides"], row["side"], row["seq"]) == ([side.pk, other.pk], side.pk, body["seq"])
    assert await merges_of(ann, other) == await merges_of(ann, side) == [row]
    again = await ann.call("POST", f"/sessions/{side.pk}/merge", {"sides": [other.pk]})
    assert again == (200, body)


async def test_of_one_side_it_is_its_merge(ann, main, side):
    status, body = await ann.call("POST", f"/sessions/{main.pk}/merge", {"sides": [side.pk]})
    assert status == 200
    assert await ann.call("POST", f"/sessions/{side.pk}/merge") == (200, body)
    [note] = await notes_in(ann, main)
    assert note["source"]["session"] == side.log_id


async def test_refusals_of_a_selection(ann, main, side, other, provider):
    path = f"/sessions/{main.pk}/merge"
    assert await refusal(ann, "POST", path, {"sides": []}) == (422, "no_sides")
    assert await refusal(ann, "POST", path, {"sides": ["a" * 26]}) == (404, "not_found")
    assert await refusal(ann, "POST", path, {"sides": [main.pk]}) == (409, "not_a_side")
    assert await refusal(ann, "POST", path, {"sides": "x"}) == (422, "invalid")
    inner = await open_side(side, title="Inner", text="deeper?")
    await idle(inner)
    assert await refusal(ann, "POST", f"/sessions/{side.pk}/merge", {"sides": [other.pk, inner.pk]}) == (
        422, "other_parent",
    )  # fmt: skip
    fresh = await open_side(main, title="Fresh")
    _, body = await ann.call("POST", path, {"sides": [side.pk, fresh.pk]})
    assert body["error"]["code"] == "nothing_new"
    assert body["error"]["message"].startswith("“Fresh”: ")
    provider.handback = " "
    _, body = await ann.call("POST", path, {"sides": [side.pk, other.pk]})
    assert body["error"] == {"code": "handback_empty", "message": "“Doubts”: the side answered with an empty handback"}


async def test_what_a_side_knows_and_became(ann, main, side):
    status, shown = await ann.call("GET", f"/sessions/{side.pk}/side")
    assert status == 200
    assert 0 < shown.pop("firstCachedShare") <= 1
    assert shown == {
        "turn": 1, "behind": 0, "ownSystem": False, "ownModel": False, "merged": [], "mergeable": True,
    }  # fmt: skip
    _, merged = await ann.call("POST", f"/sessions/{side.pk}/merge")
    await say(main, "go on")
    await idle(main)
    _, shown = await ann.call("GET", f"/sessions/{side.pk}/side")
    assert (shown["behind"], shown["mergeable"], shown["whyNot"]["code"]) == (1, False, "nothing_new")
    [note] = shown["merged"]
    assert (note["seq"], note["retracted"]) == (merged["seq"], False)
    _, new = await ann.call("POST", f"/sessions/{side.pk}/renew", {"text": "and now?"})
    _, shown = await ann.call("GET", f"/sessions/{new['id']}/side")
    assert (shown["turn"], shown["carried"]) == (2, {"session": side.log_id, "truncated": False})


async def test_what_runs_is_excluded_and_said(ann, main):
    await say(main, "[[every:40]] " + "word " * 40)
    async with asyncio.timeout(10):
        while main.open_turn is None:
            await sync_to_async(main.refresh_from_db)()
    _, new = await ann.call("POST", f"/sessions/{main.pk}/fork", {"title": "Now"})
    _, shown = await ann.call("GET", f"/sessions/{new['id']}/side")
    assert (shown["turn"], shown["runningTurn"]) == (1, 2)
    await ann.call("POST", f"/sessions/{main.pk}/stop")
    await idle(main)


async def test_only_sides_are_sides(ann, main):
    assert await refusal(ann, "GET", f"/sessions/{main.pk}/side") == (409, "not_a_side")
    assert await refusal(ann, "GET", f"/sessions/{'a' * 26}/side") == (404, "not_found")
