"""What a user says: messages, the queue, stop, continue."""

import pytest

from sidechat_web.storage.models import QueueItem

from .conftest import refusal

pytestmark = pytest.mark.django_db


def queue_of(caller, session):
    return [(item["text"], item["mode"]) for item in caller.get(f"/sessions/{session.pk}/queue").json()["items"]]


def say(caller, session, text, mode="queue"):
    answer = caller.post(f"/sessions/{session.pk}/messages", {"text": text, "mode": mode})
    assert answer.status_code == 202
    return answer.json()["item"]


def test_message_is_durable_before_the_answer(ann, session):
    item = say(ann, session, "grüße 👋")
    assert QueueItem.objects.get(pk=item["id"]).text == "grüße 👋"
    assert item == {"id": item["id"], "mode": "queue", "text": "grüße 👋"}


def test_longest_message_is_taken(ann, session):
    item = say(ann, session, "👋" * 1_000_000)
    assert len(item["text"]) == 1_000_000


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (None, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"text": None}, 422, "invalid"),
        ({"text": 5}, 422, "invalid"),
        ({"text": ["a"]}, 422, "invalid"),
        ({"text": "a\x00b"}, 422, "invalid"),
        ({"text": "\ud800"}, 422, "invalid"),
        ({"text": "hi", "mode": "shout"}, 422, "invalid"),
        ({"text": "hi", "mood": "queue"}, 422, "invalid"),
        ({"text": ""}, 422, "empty_text"),
        ({"text": " \n"}, 422, "empty_text"),
        ({"text": "x" * 1_000_001}, 413, "too_long"),
    ],
)
def test_bad_message_is_refused(ann, session, body, status, code):
    assert refusal(ann.post(f"/sessions/{session.pk}/messages", body)) == (status, code)
    assert queue_of(ann, session) == []


def test_queue_is_edited_moved_and_taken_back(ann, session):
    one, two, three = (say(ann, session, text) for text in ("one", "two", "three"))
    path = f"/sessions/{session.pk}/queue"
    changed = ann.patch(f"{path}/{three['id']}", {"text": "drei", "position": 0, "mode": "steer"})
    assert changed.json() == {"item": {"id": three["id"], "text": "drei", "mode": "steer"}}
    assert queue_of(ann, session) == [("drei", "steer"), ("one", "queue"), ("two", "queue")]
    assert ann.patch(f"{path}/{one['id']}", {"position": 2**53 - 1}).status_code == 200
    assert ann.delete(f"{path}/{two['id']}").json() == {"item": two}
    assert queue_of(ann, session) == [("drei", "steer"), ("one", "queue")]


def test_started_item_cannot_be_changed(ann, session):
    item = say(ann, session, "one")
    QueueItem.objects.update(seq=7)
    path = f"/sessions/{session.pk}/queue/{item['id']}"
    assert refusal(ann.patch(path, {"text": "x"})) == (409, "started")
    assert refusal(ann.delete(path)) == (409, "started")


def test_item_of_another_session_is_not_here(ann, session):
    other = ann.post("/sessions").json()["id"]
    item = say(ann, session, "one")
    for item_id in (item["id"], "x", "%00"):
        assert refusal(ann.delete(f"/sessions/{other}/queue/{item_id}")) == (404, "not_found")
    assert queue_of(ann, session) == [("one", "queue")]


@pytest.mark.parametrize("body", [{"position": -1}, {"position": "1"}, {"position": 10**40}, {"position": True}, []])
def test_bad_change_is_refused(ann, session, body):
    item = say(ann, session, "one")
    assert refusal(ann.patch(f"/sessions/{session.pk}/queue/{item['id']}", body)) == (422, "invalid")


def test_stop_asks_the_running_turn_to_end(ann, open_turn):
    answer = ann.post(f"/sessions/{open_turn.pk}/stop")
    assert (answer.status_code, answer.json()) == (202, {"status": "running"})
    open_turn.refresh_from_db()
    assert open_turn.stop_requested


def test_stop_without_a_turn_does_nothing(ann, session):
    assert ann.post(f"/sessions/{session.pk}/stop").json() == {"status": "idle"}
    session.refresh_from_db()
    assert not session.stop_requested


def test_continue_is_an_ordinary_message(ann, session):
    answer = ann.post(f"/sessions/{session.pk}/continue")
    assert answer.status_code == 202
    assert queue_of(ann, session) == [(answer.json()["item"]["text"], "queue")]


def test_read_only_session_takes_no_message(ann, session):
    session.read_only = True
    session.save(update_fields=["read_only"])
    assert refusal(ann.post(f"/sessions/{session.pk}/messages", {"text": "hi"})) == (409, "read_only")


def test_compaction_is_asked_for(ann, session):
    answer = ann.post(f"/sessions/{session.pk}/compact")
    assert (answer.status_code, answer.json()) == (202, {"status": "idle"})
    session.refresh_from_db()
    assert session.compact_requested


def test_message_with_quotes(ann, session):
    path = f"/sessions/{session.pk}/messages"
    side = ann.post(f"/sessions/{session.pk}/fork").json()
    quotes = [{"seq": 4, "text": "Because."}, {"seq": 4, "text": "use", "comment": "this", "session": side["id"]}]
    item = ann.post(path, {"text": "", "quotes": quotes}).json()["item"]
    assert item["text"] == "Quote 1:\n> Because.\n\nQuote 2:\n> use\n\nComment on quote 2: this"
    assert [(q["session"], q["seq"], q["start"]) for q in item["quotes"]] == [
        (session.log_id, 4, 0),
        (session.log_id, 4, 4),  # which the side inherited
    ]


@pytest.mark.parametrize(
    ("quotes", "expected"),
    [
        ([{"seq": 99, "text": "x"}], (422, "bad_seq")),
        ([{"seq": 3, "text": " "}], (422, "empty_quote")),
        ([{"seq": 3, "text": "x"}] * 21, (422, "too_many_quotes")),
        ([{"seq": -1, "text": "x"}], (422, "invalid")),
        ([{"text": "x"}], (422, "invalid")),
        ([{"seq": 3}], (422, "invalid")),
        ([{"seq": 3, "text": "x", "more": 1}], (422, "invalid")),
        ("x", (422, "invalid")),
        ([{"seq": 3, "text": "x", "session": "a" * 26}], (404, "not_found")),
        ([{"seq": 3, "text": "x", "session": "../x"}], (404, "not_found")),
    ],
)
def test_bad_quotes_are_refused(ann, session, quotes, expected):
    assert refusal(ann.post(f"/sessions/{session.pk}/messages", {"text": "why?", "quotes": quotes})) == expected


def test_nobody_quotes_from_what_is_not_theirs(bob, session):
    mine = bob.post("/sessions").json()
    quotes = [{"seq": 3, "text": "x", "session": session.pk}]
    answer = bob.post(f"/sessions/{mine['id']}/messages", {"text": "why?", "quotes": quotes})
    assert refusal(answer) == (404, "not_found")


@pytest.mark.parametrize("quotes", [None, []])
def test_no_quotes_are_no_quotes(ann, session, quotes):
    item = ann.post(f"/sessions/{session.pk}/messages", {"text": "why?", "quotes": quotes}).json()["item"]
    assert item == {"id": item["id"], "mode": "queue", "text": "why?"}
