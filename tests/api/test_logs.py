"""Logs as files: what goes out comes in again, and a bad one changes nothing."""

import json

import pytest
import zstandard
from django.test import Client

from sidechat_web.api import logs
from sidechat_web.storage.models import Event, Session

from .conftest import refusal

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]


def exported(caller, session_id, query=""):
    answer = caller.get(f"/sessions/{session_id}/export{query}")
    assert answer.status_code == 200
    return answer, b"".join(answer)


def send(caller, data, **headers):
    headers["Authorization"] = f"Bearer {caller.token}"
    return Client().generic("POST", "/api/import", data, "application/octet-stream", headers=headers)


@pytest.fixture
def foreign(bob):
    """A log that another user made elsewhere, as a file."""
    lines = [
        {"type": "session", "version": 0, "id": "log-1", "createdAt": 5, "delegationDepth": 0},
        {"type": "turn/start", "seq": 0, "time": 6, "data": {"turn": 1}},
        {
            "type": "user/message",
            "seq": 1,
            "time": 7,
            "data": {
                "content": [{"type": "text", "text": "hi"}],
                "source": {"kind": "user"},
                "role": "user",
                "id": "m1",
            },
            "surfaceOp": "append",
        },
        {"type": "turn/end", "seq": 2, "time": 8, "data": {"turn": 1, "reason": {"kind": "completed"}}},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("pack", [bytes, zstandard.compress])
def test_log_comes_in_and_leaves_as_it_was(ann, foreign, pack):
    if pack is not bytes:
        header, rest = foreign.split(b"\n", 1)
        data = pack(header + b"\n") + pack(rest)
    else:
        data = foreign
    answer = send(ann, data)
    assert answer.status_code == 201
    [shown] = answer.json()["sessions"]
    assert (shown["logId"], shown["kind"]) == ("log-1", "main")
    assert exported(ann, shown["id"])[1] == foreign
    assert send(ann, data).json()["sessions"][0]["id"] == shown["id"]
    assert Session.objects.count() == 1


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda log: b"", "log_unreadable"),
        (lambda log: b"\x00\xff" * 50, "log_unreadable"),
        (lambda log: log.replace(b'"version": 0', b'"version": 9'), "log_unsupported"),
        (lambda log: log.replace(b"turn/start", b"turn/unheard-of"), "log_unsupported"),
        (lambda log: log.replace(b'"surfaceOp": "append"', b'"surfaceOp": "never"'), "log_corrupt"),
    ],
)
def test_bad_log_says_where_and_why_and_changes_nothing(ann, foreign, damage, code):
    answer = send(ann, damage(foreign))
    assert refusal(answer) == (422, code)
    assert answer.json()["error"]["reason"]
    assert not Session.objects.exists()
    assert not Event.objects.exists()


def test_other_history_under_the_same_id_is_a_conflict(ann, foreign):
    send(ann, foreign)
    answer = send(ann, foreign.replace(b"hi", b"no"))
    assert refusal(answer) == (422, "log_conflict")
    assert answer.json()["error"]["line"] == 3


def test_import_with_a_key_is_done_once(ann, foreign):
    first = send(ann, foreign, **{"Idempotency-Key": "k"})
    assert send(ann, foreign, **{"Idempotency-Key": "k"}).content == first.content
    assert refusal(send(ann, foreign + b"\n", **{"Idempotency-Key": "k"})) == (409, "idempotency_mismatch")


def test_import_larger_than_a_form_may_be(ann, foreign, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert send(ann, foreign).status_code == 201


def test_import_has_an_end(ann, foreign, monkeypatch):
    monkeypatch.setattr(logs, "MAX_IMPORT_BYTES", 100)
    assert refusal(send(ann, foreign)) == (413, "too_large")
    assert not Session.objects.exists()


def test_import_needs_a_token(db, foreign):
    answer = Client().generic("POST", "/api/import", foreign, "application/octet-stream")
    assert refusal(answer) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("query", "suffix", "content_type"),
    [
        ("", "jsonl", "application/x-ndjson"),
        ("?format=dsh", "jsonl", "application/x-ndjson"),
        ("?format=markdown", "md", "text/markdown; charset=utf-8"),
        ("?format=openai", "json", "application/json"),
    ],
)
def test_export_is_a_file(ann, session, query, suffix, content_type):
    answer, content = exported(ann, session.pk, query)
    assert answer["Content-Type"] == content_type
    assert answer["Content-Disposition"] == f'attachment; filename="cache-design-{session.pk}.{suffix}"'
    assert b"Then nothing." in content


def test_exported_session_comes_back_for_another_user(ann, bob, session):
    _, content = exported(ann, session.pk)
    [shown] = send(bob, content).json()["sessions"]
    theirs = bob.get(f"/sessions/{shown['id']}/messages").json()
    assert theirs == ann.get(f"/sessions/{session.pk}/messages").json()


def test_unknown_format_and_stranger(ann, bob, session):
    assert refusal(ann.get(f"/sessions/{session.pk}/export?format=pdf")) == (422, "invalid")
    assert refusal(bob.get(f"/sessions/{session.pk}/export")) == (404, "not_found")
