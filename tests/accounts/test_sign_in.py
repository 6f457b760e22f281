"""Signing in by name and password, where nobody is signed in by being here."""

import pytest
from django.contrib.auth.models import User

from sidechat_web.accounts import doorkeeper
from sidechat_web.accounts.models import SignInFailure
from sidechat_web.storage.ids import now_ms

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def shared_server(settings):
    settings.SIDECHAT_LOCAL_MODE = False
    settings.ALLOWED_HOSTS = ["testserver"]
    return User.objects.create_user("ann", password="a long password")


def test_form_signs_in_and_goes_on_to_where_the_user_wanted_to_go(client):
    page = client.get("/accounts/login/?next=/s/abc")
    assert b'name="next" value="/s/abc"' in page.content
    answer = client.post("/accounts/login/", {"username": "ann", "password": "a long password", "next": "/s/abc"})
    assert (answer.status_code, answer["Location"]) == (302, "/s/abc")
    assert client.session["_auth_user_id"]


def test_wrong_password_says_so(client):
    answer = client.post("/accounts/login/", {"username": "ann", "password": "wrong"})
    assert b"The name or the password is not right." in answer.content
    assert "_auth_user_id" not in client.session


def test_foreign_next_is_ignored(client):
    answer = client.post(
        "/accounts/login/?next=https://evil.example", {"username": "ann", "password": "a long password"}
    )
    assert answer["Location"] == "/"


def test_signing_out_ends_the_session(client, shared_server):
    client.force_login(shared_server)
    answer = client.post("/accounts/logout/")
    assert answer["Location"] == "/accounts/login/"
    assert "_auth_user_id" not in client.session


def attempt(client, name="ann", password="wrong", **extra):
    return client.post("/accounts/login/", {"username": name, "password": password}, **extra)


def test_too_many_wrong_passwords_close_the_door_even_to_the_right_one(client):
    for _ in range(10):
        assert attempt(client).status_code == 200
    closed = attempt(client, password="a long password")
    assert closed.status_code == 429
    assert 0 < int(closed["Retry-After"]) <= 15 * 60
    assert b"Too many wrong passwords" in closed.content
    assert "_auth_user_id" not in client.session
    SignInFailure.objects.update(at=now_ms() - doorkeeper.WINDOW_MS)
    assert attempt(client, password="a long password").status_code == 302


def test_somebody_elsewhere_does_not_lock_a_user_out(client):
    for _ in range(12):
        attempt(client, REMOTE_ADDR="10.0.0.9")
    assert attempt(client, password="a long password").status_code == 302


def test_one_address_cannot_try_many_names(client):
    for n in range(50):
        attempt(client, name=f"user{n}")
    assert attempt(client, name="one more").status_code == 429


def test_one_name_cannot_be_tried_from_many_addresses(client):
    for n in range(100):
        attempt(client, name="Ann", REMOTE_ADDR=f"10.0.0.{n}")
    assert attempt(client, REMOTE_ADDR="10.0.1.1").status_code == 429


def test_right_password_forgets_the_wrong_ones(client):
    for _ in range(9):
        attempt(client)
    attempt(client, password="a long password")
    assert not SignInFailure.objects.exists()


@pytest.mark.parametrize("name", ["", "\x00", "x" * 10_000, "é" * 200])
def test_any_name_gets_an_answer(client, name):
    assert attempt(client, name=name).status_code == 200


def test_addresses_behind_a_proxy_are_the_clients_own(client, settings):
    settings.SIDECHAT_PROXY = "http"
    for _ in range(10):
        attempt(client, headers={"X-Forwarded-For": "1.2.3.4, 10.0.0.9"})
    assert attempt(client, headers={"X-Forwarded-For": "5.6.7.8, 10.0.0.9"}).status_code == 429
    assert attempt(client, headers={"X-Forwarded-For": "10.0.0.9, 5.6.7.8"}).status_code == 200
