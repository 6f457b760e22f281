"""Signing in by name and password, where nobody is signed in by being here."""

import pytest
from django.contrib.auth.models import User

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
