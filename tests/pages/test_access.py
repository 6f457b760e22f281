"""Every route: the owner gets in, a stranger meets what an unknown session meets, anyone else signs in."""

import pytest
from django.test import Client
from django.urls import reverse

from sidechat_web.pages.urls import urlpatterns
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import side
from sidechat_web.storage.ids import new_id

READ = [
    "session",
    "older",
    "inherited",
    "settings",
    "delete",
    "review",
    "share",
    "state",
    "message-text",
    "retry",
    "export",
    "merge-sides",
]
ACT = [
    "send",
    "stop",
    "continue",
    "open-side",
    "fork",
    "retry",
    "renew",
    "merge-sides",
    "merge",
    "review",
    "retract",
    "promote",
    "settings",
    "share",
    "delete",
    "edit-queued",
    "remove-queued",
    "cancel-merge",
    "decide",
]
MORE = {
    "state": {"place": "side"},
    "message-text": {"seq": 3},
    "retry": {"seq": 3},
    "export": {"format": "markdown"},
    "edit-queued": {"item_id": new_id()},
    "remove-queued": {"item_id": new_id()},
    "cancel-merge": {"merge_id": new_id()},
    "decide": {"approval_id": new_id()},
}


def address(name, session_id):
    return reverse(name, kwargs={"session_id": session_id, **MORE.get(name, {})})


def test_every_route_of_a_session_is_tested_here():
    names = {pattern.name for pattern in urlpatterns if "session_id" in pattern.pattern.converters}
    assert names == {*READ, *ACT}


@pytest.mark.parametrize("name", READ)
def test_owner_reads(client, aside, name):
    assert client.get(address(name, aside.pk), follow=True).status_code == 200


@pytest.mark.parametrize(("method", "name"), [("get", n) for n in READ] + [("post", n) for n in ACT])
def test_stranger_meets_what_an_unknown_session_meets(stranger, aside, method, name):
    foreign = getattr(stranger, method)(address(name, aside.pk), {"text": "x", "seq": 1})
    unknown = getattr(stranger, method)(address(name, new_id()), {"text": "x", "seq": 1})
    assert (foreign.status_code, foreign.content) == (404, unknown.content)


@pytest.mark.parametrize("name", sorted({*READ, *ACT}))
def test_nobody_is_sent_to_sign_in(aside, name):
    response = Client().get(address(name, aside.pk))
    assert response.status_code in (302, 405)
    if response.status_code == 302:
        assert response["Location"].startswith("/accounts/login/")


def test_side_of_another_session_is_not_shown_beside_this_one(client, session, owner):
    other = side.open_side(commands.create(owner, title="Other"))
    assert client.get(f"/s/{session.pk}/?side={other.pk}").status_code == 404


def test_deleted_session_is_gone(client, aside):
    commands.delete(aside)
    assert client.get(f"/s/{aside.pk}/").status_code == 404
