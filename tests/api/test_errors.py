"""One shape for every refusal, whoever refuses; never a stack trace."""

import json

import pytest
from django.db import OperationalError
from django.test import Client

from sidechat_web.accounts import tokens
from sidechat_web.accounts.models import ApiToken
from sidechat_web.api import health
from sidechat_web.storage import access
from sidechat_web.storage.ids import now_ms

from .conftest import Caller, refusal

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/", "/nothing", "/sessions/", "/sessions/x/y/z", "/v1", "/%00", "/%ff", "//"])
def test_unknown_path(ann, nobody, path):
    for caller in (ann, nobody):
        assert refusal(caller.get(path)) == (404, "not_found")


@pytest.mark.parametrize(("method", "path"), [("PUT", "/sessions"), ("TRACE", "/sessions"), ("DELETE", "/models")])
def test_wrong_method(ann, method, path):
    answer = ann.call(method, path)
    assert refusal(answer) == (405, "method_not_allowed")
    assert "GET" in answer["Allow"]


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"\xff\xfe{}",
        b"{'text': 1}",
        b'{"text": NaN}',
        b'{"text": -Infinity}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"text": ' + b"9" * 5000 + b"}",
        b'{"text": "\x00"}',
        b"\x00",
    ],
)
def test_broken_json(ann, session, raw):
    answer = ann.call("POST", f"/sessions/{session.pk}/messages", raw=raw)
    assert refusal(answer) == (400, "bad_json")


def test_body_that_is_too_large(ann, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    assert refusal(ann.post("/sessions", {"title": "x" * 2000})) == (413, "too_large")


def test_many_wrong_fields_make_a_short_message(ann):
    answer = ann.post("/sessions", {f"field{n}": n for n in range(10_000)})
    assert refusal(answer) == (422, "invalid")
    assert len(answer.content) < 2000


def test_message_names_the_field(ann):
    assert ann.post("/sessions", {"title": 5}).json()["error"]["message"].startswith("title: ")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "Token x", "Bearer \x00", "Bearer " + "x" * 9000]
)
def test_no_valid_token(db, header):
    answer = Client().get("/api/sessions", headers={"Authorization": header})
    assert refusal(answer) == (401, "unauthorized")
    assert answer["WWW-Authenticate"] == "Bearer"


def test_expired_and_revoked_tokens(ann, owner):
    old = Caller(tokens.issue(owner, "old", expires_at=now_ms() - 1))
    assert refusal(old.get("/sessions")) == (401, "unauthorized")
    ApiToken.objects.update(revoked_at=now_ms())
    assert refusal(ann.get("/sessions")) == (401, "unauthorized")


def test_cookie_opens_nothing_also_on_loopback(owner, settings):
    settings.SIDECHAT_LOCAL_MODE = True
    client = Client(REMOTE_ADDR="127.0.0.1")
    client.force_login(owner)
    answer = client.get("/api/sessions")
    assert refusal(answer) == (401, "unauthorized")


def test_host_that_is_not_ours(ann, settings):
    settings.ALLOWED_HOSTS = ["sidechat.example"]
    assert refusal(ann.get("/sessions")) == (400, "bad_request")


def test_bug_is_told_without_its_trace(ann, monkeypatch, caplog):
    def broken(user):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(access, "visible", broken)
    client = Client(raise_request_exception=False)
    answer = client.get("/api/sessions", headers={"Authorization": f"Bearer {ann.token}"})
    assert refusal(answer) == (500, "internal")
    assert b"secret" not in answer.content
    assert "secret detail" in caplog.text


def test_database_that_does_not_answer(ann, monkeypatch):
    def down(user):
        raise OperationalError("database is locked")

    monkeypatch.setattr(access, "visible", down)
    assert refusal(ann.get("/sessions")) == (503, "unavailable")


def test_pages_keep_their_own_errors(client, db):
    answer = client.get("/nothing-here")
    assert answer.status_code == 404
    assert not answer["Content-Type"].startswith("application/json")


# --- operations ---


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_told_under_any_name(client, db, settings, path):
    settings.ALLOWED_HOSTS = ["sidechat.example"]
    assert client.get(path, headers={"Host": "10.0.0.7:8000"}).status_code == 200
    assert client.get("/accounts/login/", headers={"Host": "10.0.0.7:8000"}).status_code == 400


def test_health_needs_no_token_and_sets_no_cookie(client, db):
    for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
        answer = client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": status})
        assert not answer.cookies


def test_not_ready_without_redis_where_it_is_configured(client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    answer = client.get("/readyz")
    assert refusal(answer) == (503, "unavailable")
    assert "redis" in answer.json()["error"]["message"]
    assert client.get("/healthz").status_code == 200


def test_not_ready_without_a_database(client, monkeypatch):
    def down():
        raise OperationalError("gone")

    monkeypatch.setattr(health.connection, "cursor", down)
    assert refusal(client.get("/readyz")) == (503, "unavailable")


# --- the document ---


def test_document_is_open_and_names_every_call(client):
    document = client.get("/api/openapi.json").json()
    calls = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert ("POST", "/api/sessions/{session_id}/messages") in calls
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["security"] == [{"Bearer": []}], path
            assert "401" in operation["responses"], path
            keys = [p for p in operation["parameters"] if p["name"] == "Idempotency-Key"]
            assert len(keys) == (method == "post"), path


def test_document_refers_only_to_what_it_defines(client):
    text = client.get("/api/openapi.json").content.decode()
    document = json.loads(text)
    defined = set(document["components"]["schemas"])
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used <= defined


def test_docs_page_asks_nobody_else(client):
    page = client.get("/api/docs").content.decode()
    assert "swagger" in page
    assert "https://" not in page
