"""How often, and how much: what is over is refused in the one shape, with when to come back."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.accounts import limits, tokens
from sidechat_web.accounts.limits import Bucket
from sidechat_web.storage.models import Session

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def few(settings):
    settings.SIDECHAT_CALLS_PER_MINUTE = 20
    limits.forget()
    yield
    limits.forget()


@pytest.fixture
def ann(db):
    return User.objects.create_user("ann", password="a long password")


def program(user):
    return Client(headers={"Authorization": f"Bearer {tokens.issue(user, 'test')}"})


def make(client):
    return client.post("/api/sessions", {}, content_type="application/json")


def test_calls_that_change_something_are_counted_for_each_user(ann):
    mine, theirs = program(ann), program(User.objects.create(username="bob"))
    assert {make(mine).status_code for _ in range(20)} == {201}
    refused = make(mine)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    assert 0 < int(refused["Retry-After"]) <= 60
    assert Session.objects.count() == 20
    assert mine.get("/api/sessions").status_code == 200
    assert make(theirs).status_code == 201


def test_import_counts_as_ten(ann):
    client = program(ann)
    for expected in (422, 422, 429):
        answer = client.generic("POST", "/api/import", b"no log", content_type="application/octet-stream")
        assert answer.status_code == expected


def test_forms_are_counted_with_the_calls(ann):
    browser = Client()
    browser.force_login(ann)
    client = program(ann)
    for _ in range(20):
        make(client)
    refused = browser.post("/new/", {"text": "hello"})
    assert refused.status_code == 429
    assert b"try again in" in refused.content
    assert browser.get("/new/").status_code == 200


def test_local_mode_and_zero_have_no_limit(ann, settings):
    settings.SIDECHAT_LOCAL_MODE = True
    assert {make(program(ann)).status_code for _ in range(25)} == {201}
    settings.SIDECHAT_LOCAL_MODE, settings.SIDECHAT_CALLS_PER_MINUTE = False, 0
    assert {make(program(ann)).status_code for _ in range(25)} == {201}


@given(st.integers(1, 1000), st.lists(st.tuples(st.floats(0, 100), st.integers(1, 20)), min_size=1, max_size=60))
def test_never_more_than_a_minutes_calls_and_what_flows_in(most, attempts):
    bucket, now, taken = Bucket(most, 0), 0.0, 0
    for passed, calls in attempts:
        now += passed
        wait = bucket.take(calls, most, now)
        if wait:
            assert bucket.take(calls, most, now + wait + 0.001) == 0
            now += wait + 0.001
        taken += min(calls, most)
    assert taken <= most + now * most / 60 + 0.01


# --- sizes ---


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/api/sessions", {"title": "x" * 201}, 422),
        ("/api/sessions", {"system": "x" * 1_000_001}, 422),
        ("/api/sessions", {"model": "x" * 201}, 422),
        ("/api/sessions", {"cwd": "/" + "x" * 5000}, 422),
        ("/api/sessions", {"title": "x" * (17 << 20)}, 413),
    ],
)
def test_call_that_is_too_large(ann, path, body, code):
    assert program(ann).post(path, body, content_type="application/json").status_code == code


@pytest.mark.parametrize("fields", [{"text": "x" * (17 << 20)}, {f"f{n}": "x" for n in range(2000)}])
def test_form_that_is_too_large(ann, fields):
    browser = Client(raise_request_exception=False)
    browser.force_login(ann)
    assert browser.post("/new/", fields).status_code in (400, 413, 422)
    assert not Session.objects.exists()
