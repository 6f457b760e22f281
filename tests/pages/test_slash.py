"""Slash commands: each does what it says, a refusal keeps the text, any other slash is an ordinary message."""

import pytest

from sidechat_web.runtime.sidechat.models import Merge
from sidechat_web.runtime.views import session_json
from sidechat_web.storage.models import QueueItem


def send(client, session, text):
    response = client.post(f"/s/{session.pk}/send", {"text": text})
    session.refresh_from_db()
    return response


def test_rename(htmx, session):
    assert send(htmx, session, "/rename  A better name ").status_code == 200
    assert session.title == "A better name"


def test_model(htmx, session):
    send(htmx, session, "/model custom/other")
    assert session_json(session)["model"] == "custom/other"


def test_compact(htmx, session):
    send(htmx, session, "/compact")
    assert session.compact_requested


def test_stop(htmx, session):
    send(htmx, session, "hello")
    type(session).objects.filter(pk=session.pk).update(open_turn=3)
    send(htmx, session, "/STOP")
    assert session.stop_requested


def test_merge(htmx, aside):
    assert send(htmx, aside, "/merge").status_code == 200
    assert Merge.objects.get().parent_id == aside.parent_id


@pytest.mark.parametrize("name", ["rename", "model"])
def test_incomplete_stays_in_the_box(client, session, name):
    response = send(client, session, f"/{name} ")
    assert response.status_code == 422 and f">/{name} </textarea>" in response.content.decode()


@pytest.mark.parametrize("text", ["/etc/hosts is empty", "/stopwatch", "/", "a /stop", "/merged", "/compact this"])
def test_another_slash_is_a_message(htmx, session, text):
    send(htmx, session, text)
    assert QueueItem.objects.get().text == text


def test_only_a_side_offers_merge(client, session, aside):
    assert b'data-name="merge"' not in client.get(f"/s/{session.pk}/").content
    assert f'id="command-{aside.pk}-merge"' in client.get(f"/s/{session.pk}/?side={aside.pk}").content.decode()
