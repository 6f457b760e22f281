"""The record over the API: events page by page, and the derived history."""

import pytest

from sidechat_web.core import codec
from sidechat_web.core import events as ev
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat.side import open_side
from sidechat_web.storage import log, reading

from .conftest import refusal, turn

pytestmark = pytest.mark.django_db


def chunk(text):
    return 5, {"turn": 3, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": text}}


def walk(caller, session, query=""):
    """All events, page by page."""
    seen, after = [], -1
    while after is not None:
        page = caller.get(f"/sessions/{session.pk}/events?after={after}{query}").json()
        seen += page["events"]
        after = page["next"]
    return seen


def test_events_are_the_log(ann, session):
    body = ann.get(f"/sessions/{session.pk}/events").json()
    assert body == {"events": [codec.envelope(e) for e in reading.events(session)], "next": None}


@pytest.mark.parametrize("limit", [1, 2, 5, 12, 13, 14, 1000, 10**30])
def test_pages_of_any_size_give_the_same_log(ann, session, limit):
    assert [e["seq"] for e in walk(ann, session, f"&limit={limit}")] == list(range(session.next_seq))


def test_next_is_the_last_seq_scanned_and_null_at_the_head(ann, session):
    head = session.next_seq - 1
    path = f"/sessions/{session.pk}/events"
    assert ann.get(f"{path}?limit=3").json()["next"] == 2
    assert ann.get(f"{path}?after={head - 2}&limit=2").json()["next"] is None
    assert ann.get(f"{path}?after={head}").json() == {"events": [], "next": None}
    assert ann.get(f"{path}?after={2**53 - 1}").json() == {"events": [], "next": None}


def test_chunks_only_when_asked_for(ann, open_turn):
    log.append_chunks([log.ChunkBatch(open_turn.pk, 3, [chunk(t) for t in "abcdef"])])
    assert not [e for e in walk(ann, open_turn) if e["type"] == ev.ASSISTANT_CHUNK]
    seen = walk(ann, open_turn, "&chunks=1&limit=4")
    assert [e["seq"] for e in seen] == list(range(open_turn.next_seq + 6))
    assert "".join(e["data"]["chunk"]["text"] for e in seen if e["type"] == ev.ASSISTANT_CHUNK) == "abcdef"


def test_fork_shows_its_seed(ann, session):
    side = open_side(session)
    seen = walk(ann, side)
    assert seen[: session.next_seq] == walk(ann, session)
    assert seen[session.next_seq]["data"]["source"]["form"] == "advisor"
    shown = ann.get(f"/sessions/{side.pk}").json()
    assert (shown["parentSession"], shown["seedLength"]) == (session.log_id, session.next_seq)


def test_what_json_can_hold_comes_back_as_it_was(ann, session):
    odd = {"lone": "\ud83d", "nul": "\x00", "line": "\u2028", "big": 2**70, "text": "ü", "null": None}
    log.append(session.pk, [ev.Draft("x/odd", odd, ignorable=True)])
    last = ann.get(f"/sessions/{session.pk}/events?after={session.next_seq - 1}").json()["events"][-1]
    assert (last["data"], last["ignorable"]) == (odd, True)


def test_long_page_stops_at_a_thousand(ann, owner):
    session = commands.create(owner)
    log.append(session.pk, [e for n in range(1, 202) for e in turn(n)])
    page = ann.get(f"/sessions/{session.pk}/events?limit=5000").json()
    assert (len(page["events"]), page["next"]) == (1000, 999)


@pytest.mark.parametrize("query", ["after=-2", "after=x", "limit=0", "limit=1.5", "chunks=maybe", f"after={10**40}"])
def test_bad_query_is_refused(ann, session, query):
    assert refusal(ann.get(f"/sessions/{session.pk}/events?{query}")) == (422, "invalid")


def test_messages_are_what_a_model_would_see(ann, session):
    body = ann.get(f"/sessions/{session.pk}/messages").json()
    assert body == {"messages": reading.surface(session).messages()}
    assert [ev.text_of(m) for m in body["messages"]] == ["Why?", "Because.", "And then?", "Then nothing."]


def test_session_without_requests_lists_none(ann, owner):
    empty = commands.create(owner)
    assert ann.get(f"/sessions/{empty.pk}/requests").json() == []
    assert refusal(ann.get(f"/sessions/{empty.pk}/requests/1")) == (404, "not_found")
