"""From a side back into its parent, over the API, against a running agent."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.api import waiting
from sidechat_web.storage.models import Session
from tests.conftest import idle

from .agents import AsyncCaller, caller_for, merges_of, notes_in, open_side, refusal, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("running")]


@pytest.fixture
async def ann(owner):
    return await caller_for(owner)


async def test_draft_is_written_once_and_kept(ann, side, provider):
    provider.handback = "There is one risk."
    first = await ann.call("POST", f"/sessions/{side.pk}/handback")
    assert first[0] == 200
    assert (first[1]["text"], first[1]["truncated"]) == ("There is one risk.", False)
    asked = len(provider.bodies)
    assert await ann.call("POST", f"/sessions/{side.pk}/handback") == first
    assert len(provider.bodies) == asked


async def test_long_draft_is_capped_and_merging_it_as_shown_is_no_edit(ann, main, side, provider):
    provider.handback = "A sentence of the note. " * 500
    _, draft = await ann.call("POST", f"/sessions/{side.pk}/handback")
    assert draft["truncated"]
    assert len(draft["text"]) <= 2000
    status, merged = await ann.call("POST", f"/sessions/{side.pk}/merge", {"text": draft["text"]})
    assert (status, merged["truncated"], merged["edited"]) == (200, True, False)
    [note] = await notes_in(ann, main)
    assert note["content"][0]["text"].endswith(draft["text"])


async def test_merge_brings_one_note_however_often_it_is_asked_for(ann, main, side):
    answers = await asyncio.gather(*(ann.call("POST", f"/sessions/{side.pk}/merge") for _ in range(20)))
    assert {status for status, _ in answers} == {200}
    assert len({json.dumps(body, sort_keys=True) for _, body in answers}) == 1
    [note] = await notes_in(ann, main)
    body = answers[0][1]
    assert (body["session"], body["truncated"], body["edited"]) == (main.pk, False, False)
    [row] = await merges_of(ann, main)
    assert row == {"id": body["merge"], "side": side.pk, "parent": main.pk, "state": "delivered", "seq": body["seq"]}
    assert await merges_of(ann, side) == [row]
    assert note["source"]["session"] == side.log_id


async def test_merge_with_a_written_note(ann, main, side):
    status, body = await ann.call("POST", f"/sessions/{side.pk}/merge", {"text": "My own words."})
    assert (status, body["edited"]) == (200, True)
    [note] = await notes_in(ann, main)
    assert note["content"][0]["text"].endswith("My own words.")


async def test_merge_into_a_running_parent_is_pending_and_can_be_cancelled(ann, main, side):
    await say(main, "[[every:50]][[say:" + "word " * 400 + "]]")
    async with asyncio.timeout(10):
        while main.open_turn is None:
            await sync_to_async(main.refresh_from_db)()
            await asyncio.sleep(0.01)
    status, body = await ann.call("POST", f"/sessions/{side.pk}/merge", {"text": "Wait for me."})
    assert status == 202
    [row] = await merges_of(ann, main)
    assert (row["id"], row["state"]) == (body["merge"], "pending")
    status, row = await ann.call("DELETE", f"/sessions/{main.pk}/merges/{body['merge']}")
    assert (status, row["state"]) == (200, "cancelled")
    await ann.call("POST", f"/sessions/{main.pk}/stop")
    await idle(main)
    assert await notes_in(ann, main) == []


async def test_pending_merge_with_a_key_is_answered_again_once_it_is_delivered(ann, main, side):
    await say(main, "[[every:50]][[say:" + "word " * 400 + "]]")
    async with asyncio.timeout(10):
        while main.open_turn is None:
            await sync_to_async(main.refresh_from_db)()
            await asyncio.sleep(0.01)
    ask = ("POST", f"/sessions/{side.pk}/merge", {"text": "Wait for me."}, "k1")
    status, pending = await ann.call(*ask)
    assert status == 202
    await ann.call("POST", f"/sessions/{main.pk}/stop")
    await idle(main)
    status, merged = await ann.call(*ask)
    assert (status, merged["merge"]) == (200, pending["merge"])
    assert await ann.call(*ask) == (status, merged)
    assert len(await notes_in(ann, main)) == 1


async def test_same_key_merges_once_though_the_side_went_on(ann, main, side):
    first = await ann.call("POST", f"/sessions/{side.pk}/merge", None, "k2")
    assert first[0] == 200
    await say(side, "and another thing?")
    await idle(side)
    assert await ann.call("POST", f"/sessions/{side.pk}/merge", None, "k2") == first
    assert len(await notes_in(ann, main)) == 1
    status, body = await ann.call("POST", f"/sessions/{side.pk}/merge", {"text": "other"}, "k2")
    assert (status, body["error"]["code"]) == (409, "idempotency_mismatch")


async def test_slow_draft_is_202_and_can_be_asked_for_again(ann, side, provider, monkeypatch):
    monkeypatch.setattr(waiting, "WAIT_SECONDS", 0)
    assert await ann.call("POST", f"/sessions/{side.pk}/handback") == (202, {"merge": None})
    await idle(side)
    assert (await ann.call("POST", f"/sessions/{side.pk}/handback"))[0] == 200


async def test_slow_merge_is_202_and_arrives(ann, main, side, monkeypatch):
    monkeypatch.setattr(waiting, "WAIT_SECONDS", 0)
    status, body = await ann.call("POST", f"/sessions/{side.pk}/merge")
    assert status == 202
    await idle(side)
    async with asyncio.timeout(10):
        while (await merges_of(ann, main))[0]["state"] != "delivered":
            await asyncio.sleep(0.02)
    assert (await merges_of(ann, main))[0]["id"] == body["merge"]


async def test_empty_handback_says_so_and_can_be_retried(ann, main, side, provider):
    provider.handback = " "
    for path in ("merge", "handback"):
        assert await refusal(ann, "POST", f"/sessions/{side.pk}/{path}", key=path) == (503, "handback_empty")
    assert await notes_in(ann, main) == []
    provider.handback = "Better now."
    assert (await ann.call("POST", f"/sessions/{side.pk}/merge", key="merge"))[0] == 200


async def test_side_that_went_on_has_no_draft(ann, main, side, provider, monkeypatch):
    monkeypatch.setattr(waiting, "WAIT_SECONDS", 0)
    ask = ("POST", f"/sessions/{side.pk}/handback", None, "k3")
    assert (await ann.call(*ask))[0] == 202
    await say(side, "one more thing")
    await idle(side)
    assert await refusal(ann, *ask) == (409, "nothing_new")


async def test_refusals_name_their_reason(ann, main, side):
    assert await refusal(ann, "POST", f"/sessions/{main.pk}/merge") == (409, "not_a_side")
    assert await refusal(ann, "POST", f"/sessions/{main.pk}/handback") == (409, "not_a_side")
    fresh = await open_side(main)
    for path in ("merge", "handback"):
        assert await refusal(ann, "POST", f"/sessions/{fresh.pk}/{path}") == (409, "nothing_new")
    await ann.call("POST", f"/sessions/{side.pk}/merge")
    await ann.call("DELETE", f"/sessions/{main.pk}?sides=keep")
    assert await refusal(ann, "POST", f"/sessions/{side.pk}/merge") == (409, "parent_gone")


@pytest.mark.parametrize("body", [{"text": 1}, {"text": "  "}, {"text": "\x00"}, {"steer": "yes"}, {"sids": []}, []])
async def test_bad_merge_is_refused(ann, side, body):
    assert (await refusal(ann, "POST", f"/sessions/{side.pk}/merge", body))[0] == 422


async def test_retract_takes_the_note_off_the_surface_and_the_same_can_be_merged_again(ann, main, side):
    _, merged = await ann.call("POST", f"/sessions/{side.pk}/merge")
    status, event = await ann.call("POST", f"/sessions/{main.pk}/retract", {"seq": merged["seq"]})
    assert (status, event["surfaceOp"]) == (200, {"op": "replace", "start": merged["seq"], "end": merged["seq"]})
    assert await notes_in(ann, main) == []
    assert [m["state"] for m in await merges_of(ann, main)] == ["retracted"]
    again = await refusal(ann, "POST", f"/sessions/{main.pk}/retract", {"seq": merged["seq"]})
    assert again == (409, "not_on_surface")
    status, second = await ann.call("POST", f"/sessions/{side.pk}/merge")
    assert status == 200
    assert second["merge"] != merged["merge"]


async def test_promote_lifts_the_gate_once(ann, side):
    status, shown = await ann.call("POST", f"/sessions/{side.pk}/promote")
    assert (status, shown["promoted"]) == (200, True)
    assert await refusal(ann, "POST", f"/sessions/{side.pk}/promote") == (409, "not_a_side")


async def test_strangers_and_nobody(ann, main, side, django_user_model):
    bob = await sync_to_async(django_user_model.objects.create)(username="bob")
    stranger = await caller_for(bob)
    nobody = AsyncCaller("sc_none")
    for path in ("handback", "merge"):
        assert await refusal(stranger, "POST", f"/sessions/{side.pk}/{path}") == (404, "not_found")
        assert await refusal(nobody, "POST", f"/sessions/{side.pk}/{path}") == (401, "unauthorized")
    row = await sync_to_async(Session.objects.get)(pk=side.pk)
    assert row.open_turn is None


async def test_models_are_those_of_the_provider_with_the_default_first(ann):
    status, body = await ann.call("GET", "/models")
    assert status == 200
    assert [m["id"] for m in body["models"]][:2] == ["custom/scripted", "custom/scripted-2"]


async def test_provider_that_does_not_list_still_has_its_default(ann, settings):
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    _, body = await ann.call("GET", "/models")
    assert body["models"][0] == {"id": "custom/scripted", "provider": "custom", "name": "scripted"}
    assert "custom/scripted-2" not in [m["id"] for m in body["models"]]


async def test_requests_are_what_the_provider_received(ann, main, side, provider):
    sent = [body.decode() for body in provider.bodies]
    rebuilt = []
    for session in (main, side):
        _, listed = await ann.call("GET", f"/sessions/{session.pk}/requests")
        assert [r["n"] for r in listed] == [1]
        assert listed[0]["usage"]["outputTokens"] > 0
        _, one = await ann.call("GET", f"/sessions/{session.pk}/requests/1")
        assert {**one, "body": None} == {**listed[0], "body": None}
        rebuilt.append(one["body"])
        for n in ("0", "2", str(10**30)):
            assert (await refusal(ann, "GET", f"/sessions/{session.pk}/requests/{n}")) == (404, "not_found")
        assert (await refusal(ann, "GET", f"/sessions/{session.pk}/requests/x")) == (422, "invalid")
    assert rebuilt == sent
