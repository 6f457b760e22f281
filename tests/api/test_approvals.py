"""Tool calls that wait for the user: seen and answered by the owner only."""

import pytest

from sidechat_web.runtime import approvals
from sidechat_web.runtime.tools.gates import Call
from sidechat_web.storage import log
from sidechat_web.storage.ids import new_id

from .conftest import refusal

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(open_turn):
    locked = log.lock(open_turn.pk)
    call = Call(session=locked, call_id="c1", name="write_file", arguments={"path": "a"}, tool=None)
    return approvals.ask(locked, 3, call, '{"path": "a"}', "write_file may change something.")


def test_open_approval_is_listed_and_answered_once(ann, open_turn, asked):
    path = f"/sessions/{open_turn.pk}/approvals"
    [shown] = ann.get(path).json()
    assert (shown["id"], shown["tool"], shown["arguments"]) == (asked.pk, "write_file", '{"path": "a"}')
    assert ann.get(f"/sessions/{open_turn.pk}").json()["status"] == "waiting"
    answer = ann.post(f"/approvals/{asked.pk}", {"decision": "allow-once"})
    assert (answer.status_code, answer.json()) == (200, {**shown, "decision": "allow-once"})
    assert ann.post(f"/approvals/{asked.pk}", {"decision": "allow-once"}).json() == answer.json()
    assert refusal(ann.post(f"/approvals/{asked.pk}", {"decision": "deny"})) == (409, "decided")
    assert ann.get(path).json() == []


@pytest.mark.parametrize("body", [None, {}, {"decision": "maybe"}, {"decision": None}, {"decision": 1}])
def test_bad_decision_is_refused(ann, asked, body):
    assert refusal(ann.post(f"/approvals/{asked.pk}", body)) == (422, "invalid")


def test_stranger_and_nobody(bob, nobody, open_turn, asked):
    assert refusal(bob.get(f"/sessions/{open_turn.pk}/approvals")) == (404, "not_found")
    assert refusal(bob.post(f"/approvals/{asked.pk}", {"decision": "deny"})) == (404, "not_found")
    assert refusal(nobody.post(f"/approvals/{asked.pk}", {"decision": "deny"})) == (401, "unauthorized")
    asked.refresh_from_db()
    assert asked.decision == ""


def test_unknown_approval(ann):
    for approval_id in (new_id(), "x", "%00"):
        assert refusal(ann.post(f"/approvals/{approval_id}", {"decision": "deny"})) == (404, "not_found")
