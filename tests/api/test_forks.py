"""Forks over the API: sides, ordinary forks, retries."""

import pytest

from sidechat_web.storage.models import QueueItem, Session

from .conftest import refusal

pytestmark = pytest.mark.django_db


def own_events(caller, shown):
    page = caller.get(f"/sessions/{shown['id']}/events?after={shown['seedLength'] - 1}").json()
    return page["events"]


@pytest.mark.parametrize("body", [None, {}, {"side": True}, {"atSeq": None}])
def test_fork_is_a_side_by_default(ann, session, body):
    answer = ann.post(f"/sessions/{session.pk}/fork", body)
    assert answer.status_code == 201
    child = answer.json()
    assert (child["kind"], child["seedLength"], child["parentSession"]) == ("side", session.next_seq, session.log_id)
    assert child["usage"]["inputTokens"] == 0
    [frame] = own_events(ann, child)
    assert (frame["type"], frame["data"]["source"]["form"]) == ("context/message", "advisor")


def test_first_message_is_accepted_with_the_fork(ann, session):
    child = ann.post(f"/sessions/{session.pk}/fork", {"text": "why?", "title": "Doubts"}).json()
    assert child["title"] == "Doubts"
    assert [item["text"] for item in ann.get(f"/sessions/{child['id']}/queue").json()["items"]] == ["why?"]


def test_refused_first_message_leaves_no_child(ann, session):
    assert refusal(ann.post(f"/sessions/{session.pk}/fork", {"text": "  "})) == (422, "empty_text")
    assert Session.objects.count() == 1


def test_ordinary_fork_has_no_frame(ann, session):
    child = ann.post(f"/sessions/{session.pk}/fork", {"side": False}).json()
    assert child["kind"] == "fork"
    assert own_events(ann, child) == []


def test_fork_at_a_message_ends_with_its_turn(ann, session):
    child = ann.post(f"/sessions/{session.pk}/fork", {"atSeq": 3}).json()
    seen = ann.get(f"/sessions/{child['id']}/events").json()["events"][: child["seedLength"]]
    assert [e["data"]["turn"] for e in seen if e["type"] == "turn/end"] == [1]


def test_open_turn_has_no_boundary(ann, open_turn):
    path = f"/sessions/{open_turn.pk}/fork"
    assert refusal(ann.post(path, {"atSeq": open_turn.next_seq - 1})) == (409, "turn_open")
    assert ann.post(path).json()["seedLength"] == open_turn.stable


@pytest.mark.parametrize("body", [{"atSeq": -1}, {"atSeq": "3"}, {"atSeq": 1.5}, {"atSeq": 10**30}, {"side": "no"}, []])
def test_bad_fork_is_refused(ann, session, body):
    assert refusal(ann.post(f"/sessions/{session.pk}/fork", body)) == (422, "invalid")


def test_seq_past_the_end_is_the_end(ann, session):
    assert ann.post(f"/sessions/{session.pk}/fork", {"atSeq": 2**53 - 1}).json()["seedLength"] == session.next_seq


def test_retry_forks_before_the_turn_and_sends_its_message_again(ann, session):
    question = next(
        e["seq"]
        for e in ann.get(f"/sessions/{session.pk}/events").json()["events"]
        if e["type"] == "user/message" and e["data"]["id"] == "u2"
    )
    answer = ann.post(f"/sessions/{session.pk}/retry", {"seq": question})
    assert answer.status_code == 201
    child = answer.json()
    assert child["kind"] == "fork"
    assert [m["id"] for m in ann.get(f"/sessions/{child['id']}/messages").json()["messages"]] == ["u1", "a1"]
    assert QueueItem.objects.get(session=child["id"]).text == "And then?"
    other = ann.post(f"/sessions/{session.pk}/retry", {"seq": question, "text": "What if?"}).json()
    assert QueueItem.objects.get(session=other["id"]).text == "What if?"


@pytest.mark.parametrize("body", [None, {}, {"seq": None}, {"seq": "2"}, {"seq": 0}, {"seq": 2**53 - 1}])
def test_retry_of_what_is_no_message_is_refused(ann, session, body):
    assert refusal(ann.post(f"/sessions/{session.pk}/retry", body))[0] == 422


@pytest.mark.parametrize("body", [None, {}, {"seq": "x"}, {"seq": -1}])
def test_bad_retraction_is_refused(ann, session, body):
    assert refusal(ann.post(f"/sessions/{session.pk}/retract", body)) == (422, "invalid")


def test_nothing_is_retracted_while_a_turn_runs(ann, open_turn):
    assert refusal(ann.post(f"/sessions/{open_turn.pk}/retract", {"seq": 3})) == (409, "turn_open")


def test_what_is_no_note_is_not_retracted(ann, session):
    for seq in (0, 3, 2**53 - 1):
        assert refusal(ann.post(f"/sessions/{session.pk}/retract", {"seq": seq})) == (409, "not_on_surface")


def test_only_sides_are_promoted(ann, session):
    assert refusal(ann.post(f"/sessions/{session.pk}/promote")) == (409, "not_a_side")


def test_quotes_of_a_first_message_are_from_the_parent(ann, session):
    answer = 4
    body = {"text": "why?", "quotes": [{"seq": answer, "text": "Because", "comment": "really"}]}
    child = ann.post(f"/sessions/{session.pk}/fork", body).json()
    [item] = ann.get(f"/sessions/{child['id']}/queue").json()["items"]
    assert item["text"] == "Quote 1:\n> Because\n\nComment on quote 1: really\n\nwhy?"
    assert item["quotes"] == [{"session": session.log_id, "seq": answer, "start": 0}]


@pytest.mark.parametrize("body", [{"title": "New"}, {"text": "And now?"}, None])
def test_renewed_side_starts_where_the_parent_is_now(ann, session, body):
    old = ann.post(f"/sessions/{session.pk}/fork", {"atSeq": 3, "title": "Old"}).json()
    answer = ann.post(f"/sessions/{old['id']}/renew", body)
    assert answer.status_code == 201
    new = answer.json()
    assert (new["seedLength"], new["parentSession"]) == (session.next_seq, session.log_id)
    assert new["title"] == ((body or {}).get("title") or "Old")
    assert refusal(ann.post(f"/sessions/{new['id']}/renew")) == (409, "nothing_new")


def test_only_sides_with_a_parent_are_renewed(ann, session):
    assert refusal(ann.post(f"/sessions/{session.pk}/renew")) == (409, "not_a_side")
    old = ann.post(f"/sessions/{session.pk}/fork", {"atSeq": 3}).json()
    ann.delete(f"/sessions/{session.pk}?sides=keep")
    assert refusal(ann.post(f"/sessions/{old['id']}/renew")) == (409, "parent_gone")
    assert refusal(ann.post(f"/sessions/{old['id']}/renew", {"atSeq": 3})) == (422, "invalid")


def test_strangers_renew_nothing(bob, session):
    assert refusal(bob.post(f"/sessions/{session.pk}/renew")) == (404, "not_found")
