"""A user's own account: password, browsers, tokens; invitations by admins, and joining by one."""

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client

from sidechat_web.accounts import invitations, sign_ins, tokens, user_for_token
from sidechat_web.accounts.models import ApiToken, AuditEntry, Invitation, SignIn
from sidechat_web.accounts.session_store import SessionStore, hashed
from sidechat_web.storage.ids import now_ms

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"


@pytest.fixture(autouse=True)
def shared_server(settings):
    settings.SIDECHAT_LOCAL_MODE = False
    settings.ALLOWED_HOSTS = ["testserver"]
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"


@pytest.fixture
def ann(db):
    return User.objects.create_user("ann", password=PASSWORD)


@pytest.fixture
def boss(db):
    return User.objects.create_user("boss", password=PASSWORD, is_superuser=True, is_staff=True)


def browser(user, password=PASSWORD, **headers):
    client = Client(headers=headers)
    answer = client.post("/accounts/login/", {"username": user.username, "password": password})
    assert answer.status_code == 302
    return client


def signed_in(client):
    return client.get("/account/").status_code == 200


# --- password ---


def change(client, old=PASSWORD, new="another long one", again=None):
    return client.post("/account/password", {"old": old, "password": new, "again": again or new})


def test_password_change_signs_other_browsers_out(ann):
    here, there = browser(ann), browser(ann)
    assert change(here).status_code == 302
    assert signed_in(here)
    assert not signed_in(there)
    assert browser(ann, "another long one")
    assert [entry.action for entry in AuditEntry.objects.all()] == ["password.changed"]
    assert SignIn.objects.exclude(session_key="").count() == 2  # here, and the one just made


@pytest.mark.parametrize(
    ("old", "new", "again", "why"),
    [
        ("wrong", "another long one", None, "The present password is not right."),
        (PASSWORD, "another long one", "different", "The two passwords differ."),
        (PASSWORD, "short", None, "too short"),
        (PASSWORD, "password123", None, "too common"),
        (PASSWORD, "x" * 5000, None, "at most 1000"),
    ],
)
def test_password_that_is_refused_says_why(ann, old, new, again, why):
    answer = change(browser(ann), old, new, again)
    assert answer.status_code == 422
    assert why in answer.content.decode()
    ann.refresh_from_db()
    assert ann.check_password(PASSWORD)


# --- browsers ---


def test_browsers_are_listed_and_ended(ann):
    here = browser(ann, **{"User-Agent": "Here/1"})
    there = browser(ann, **{"User-Agent": "There/1"})
    page = here.get("/account/").content.decode()
    assert "Here/1, from 127.0.0.1" in page
    assert "There/1" in page
    assert page.count("<b>this one</b>") == 1
    assert here.post("/account/sign-ins/end", {"row": SignIn.objects.get(agent="There/1").pk}).status_code == 302
    assert signed_in(here)
    assert not signed_in(there)
    assert "There/1" not in here.get("/account/").content.decode()


def test_stranger_cannot_end_a_sign_in(ann, boss):
    here = browser(ann)
    other = browser(boss)
    assert other.post("/account/sign-ins/end", {"row": SignIn.objects.get(user=ann).pk}).status_code == 404
    assert signed_in(here)


def test_signing_out_takes_the_browser_from_the_list(ann):
    here, there = browser(ann), browser(ann)
    there.post("/accounts/logout/")
    assert [one.session_key for one in sign_ins.of(ann)] == [hashed(here.session.session_key)]


# --- tokens ---


def made(answer):
    [raw] = re.findall(r"sc_[\w-]{40,}", answer.content.decode())
    return raw


def test_token_is_shown_once_and_works(ann):
    here = browser(ann)
    raw = made(here.post("/account/tokens", {"name": "laptop", "scope": "write", "days": "30"}))
    assert user_for_token(raw) == ann
    page = here.get("/account/").content.decode()
    assert "laptop" in page
    assert raw not in page
    row = ApiToken.objects.get()
    assert 29 < (row.expires_at - now_ms()) / 86_400_000 <= 30
    assert here.post("/account/tokens/revoke", {"row": row.pk}).status_code == 302
    assert user_for_token(raw) is None
    assert "laptop" not in here.get("/account/").content.decode().replace("laptop</p>", "")


def test_token_for_reading_reads(ann):
    raw = made(browser(ann).post("/account/tokens", {"name": "cron", "scope": "read", "days": "0"}))
    program = Client(headers={"Authorization": f"Bearer {raw}"})
    assert program.get("/api/sessions").status_code == 200
    refused = program.post("/api/sessions", {}, content_type="application/json")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "token_read_only")
    assert ApiToken.objects.get().expires_at is None


@pytest.mark.parametrize("wrong", [{"name": ""}, {"scope": "root"}, {"days": "12"}, {"name": "x" * 200}, {"days": "x"}])
def test_token_that_cannot_be_made(ann, wrong):
    answer = browser(ann).post("/account/tokens", {"name": "x", "scope": "read", "days": "30", **wrong})
    assert answer.status_code == 422
    assert not ApiToken.objects.exists()


def test_token_of_another_cannot_be_revoked(ann, boss):
    raw = tokens.issue(ann, "laptop")
    row = ApiToken.objects.get().pk
    for wrong in (row, 0, "x", 10**30, ""):
        assert browser(boss).post("/account/tokens/revoke", {"row": wrong}).status_code == 404
    assert user_for_token(raw) == ann


# --- invitations ---


def invited(client, **data):
    [link] = re.findall(
        r"http://testserver(/accounts/join/[\w-]+/)", client.post("/account/invitations", data).content.decode()
    )
    return link


JOIN = {"name": "new", "password": "one more long one", "again": "one more long one"}


@pytest.mark.parametrize("admin", [False, True])
def test_invitation_makes_one_account_of_its_role(boss, admin):
    link = invited(browser(boss), **({"admin": "on"} if admin else {}))
    guest = Client()
    assert guest.get(link).status_code == 200
    assert guest.post(link, JOIN).status_code == 302
    assert signed_in(guest)
    user = User.objects.get(username="new")
    assert (user.is_superuser, user.is_staff) == (admin, admin)
    assert Client().get(link).status_code == 404
    assert Client().post(link, {**JOIN, "name": "second"}).status_code == 404
    assert {entry.action for entry in AuditEntry.objects.all()} == {"invitation.made", "user.joined"}


@pytest.mark.parametrize("name", ["ann", "ANN", "local", "Local", "two words", "x" * 151, "\x00", "", "<b>"])
def test_name_that_cannot_be_taken(ann, boss, name):
    link = invited(browser(boss))
    answer = Client().post(link, {**JOIN, "name": name})
    assert answer.status_code == 422
    assert b'role="alert"' in answer.content
    assert User.objects.count() == 2
    assert Client().get(link).status_code == 200


@pytest.mark.parametrize("end", ["expired", "withdrawn", "maker left", "maker is no admin"])
def test_invitation_that_has_ended(boss, end):
    client = browser(boss)
    link = invited(client)
    if end == "expired":
        Invitation.objects.update(expires_at=now_ms() - 1)
    elif end == "withdrawn":
        client.post("/account/invitations/withdraw", {"row": Invitation.objects.get().pk})
    else:
        User.objects.update(**({"is_active": False} if end == "maker left" else {"is_superuser": False}))
    assert Client().get(link).status_code == 404
    assert Client().post(link, JOIN).status_code == 404
    assert not User.objects.filter(username="new").exists()


def test_members_do_not_invite(ann):
    assert browser(ann).post("/account/invitations").status_code == 404
    assert "Invite somebody" not in browser(ann).get("/account/").content.decode()


def test_only_a_hash_of_an_invitation_is_kept(boss):
    raw = invitations.invite(boss)
    assert raw not in str(Invitation.objects.values())


def test_table_of_sessions_has_no_key_that_signs_in(ann):
    here = browser(ann)
    cookie = here.cookies["sidechat_session"].value
    row = BrowserSession.objects.get()
    assert row.session_key != cookie
    thief = Client()
    thief.cookies["sidechat_session"] = row.session_key
    assert not signed_in(thief)
    assert signed_in(here)


@pytest.mark.django_db(transaction=True)
async def test_coroutines_use_the_same_store():
    store = SessionStore()
    store["x"] = 1
    await store.asave()
    again = SessionStore(store.session_key)
    assert await again.aget("x") == 1
    assert [row.session_key async for row in BrowserSession.objects.all()] == [hashed(store.session_key)]
    assert await store.aexists(store.session_key)
    await store.adelete()
    assert not await store.aexists(store.session_key)
