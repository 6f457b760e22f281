"""The admin pages: roles, revoking, failed turns; nothing of what anybody said."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sidechat_web.accounts import tokens, user_for_token
from sidechat_web.accounts.models import ApiToken, AuditEntry
from sidechat_web.core import events as ev
from sidechat_web.runtime import commands
from sidechat_web.storage import log

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def shared_server(settings):
    settings.SIDECHAT_LOCAL_MODE = False
    settings.SIDECHAT_OPENAI_BASE_URL, settings.SIDECHAT_DEFAULT_MODEL = "http://127.0.0.1:9/v1", "custom/fake"


@pytest.fixture
def boss(db):
    User.objects.create_user("boss", password="a long password", is_superuser=True, is_staff=True)
    client = Client()
    client.post("/accounts/login/", {"username": "boss", "password": "a long password"})
    return client


@pytest.fixture
def ann(db):
    return User.objects.create_user("ann", password="a long password")


def change(boss, user, **fields):
    wanted = {"is_superuser": user.is_superuser, "is_active": user.is_active, **fields}
    answer = boss.post(f"/admin/auth/user/{user.pk}/change/", {n: "on" for n, v in wanted.items() if v})
    user.refresh_from_db()
    return answer


def test_admin_gives_and_takes_roles(boss, ann):
    assert change(boss, ann, is_superuser=True).status_code == 302
    assert (ann.is_superuser, ann.is_staff) == (True, True)
    change(boss, ann, is_superuser=False)
    assert (ann.is_superuser, ann.is_staff) == (False, False)
    assert [e.action for e in AuditEntry.objects.all()] == ["user.changed", "user.changed"]


def test_inactive_user_loses_browser_and_token_and_keeps_sessions(boss, ann):
    raw, theirs = tokens.issue(ann, "laptop"), Client()
    theirs.force_login(ann)
    session = commands.create(ann)
    change(boss, ann, is_active=False)
    assert user_for_token(raw) is None
    assert theirs.get("/account/").status_code == 302
    session.refresh_from_db()
    assert session.deleted_at is None


def test_nobody_takes_their_own_rights_away(boss):
    me = User.objects.get(username="boss")
    change(boss, me, is_superuser=False, is_active=False)
    assert (me.is_superuser, me.is_active) == (True, True)


def test_new_password_signs_its_user_out_everywhere(boss, ann):
    theirs = Client()
    theirs.post("/accounts/login/", {"username": "ann", "password": "a long password"})
    new = {"password1": "another long one", "password2": "another long one", "usable_password": "true"}
    assert boss.post(f"/admin/auth/user/{ann.pk}/password/", new).status_code == 302
    assert theirs.get("/account/").status_code == 302
    assert AuditEntry.objects.get().action == "user.password"
    assert not ann.sign_ins.exclude(session_key="").exists()


def test_tokens_are_revoked(boss, ann):
    raw = tokens.issue(ann, "laptop")
    row = ApiToken.objects.get()
    boss.post("/admin/accounts/apitoken/", {"action": "revoke", "_selected_action": row.pk})
    assert user_for_token(raw) is None
    assert AuditEntry.objects.get().detail == {"user": "ann"}


@pytest.fixture
def failed(ann):
    """A session whose turn failed, with marks in everything that its user wrote."""
    session = commands.create(ann, title="MARK-title", system="MARK-system")
    failure = {"message": "MARK-error", "code": "RATE_LIMITED"}
    log.append(
        session.pk,
        [
            ev.turn_start(1),
            ev.user_message("u1", ev.text_blocks("MARK-text")),
            ev.turn_end(1, {"kind": "error", "error": failure}),
        ],
    )
    return session


def test_failed_turns_are_listed_without_content(boss, failed, ann):
    other = commands.create(ann)
    page = boss.get("/admin/storage/session/?last=failed").content.decode()
    assert failed.pk in page
    assert "RATE_LIMITED" in page
    assert other.pk not in page
    whole = page + "".join(
        boss.get(path).content.decode()
        for path in (f"/admin/storage/session/{failed.pk}/change/", "/admin/", f"/admin/auth/user/{ann.pk}/change/")
    )
    assert "MARK" not in whole


def test_running_turn_is_stopped(boss, ann):
    session = commands.create(ann)
    log.append(session.pk, [ev.turn_start(1)])
    boss.post("/admin/storage/session/", {"action": "stop", "_selected_action": session.pk})
    session.refresh_from_db()
    assert session.stop_requested
    assert AuditEntry.objects.get().target == session.pk


@pytest.mark.parametrize("last", ["failed", "running", "waiting", "nonsense"])
def test_filters_answer(boss, failed, last):
    assert boss.get(f"/admin/storage/session/?last={last}").status_code == 200


def test_audit_log_is_only_read(boss, ann):
    change(boss, ann, is_superuser=True)
    row = AuditEntry.objects.get().pk
    page = boss.get("/admin/accounts/auditentry/").content.decode()
    assert "user.changed" in page
    assert boss.post(f"/admin/accounts/auditentry/{row}/delete/", {"post": "yes"}).status_code == 403
    assert boss.post(f"/admin/accounts/auditentry/{row}/change/", {"action": "x"}).status_code == 403
    assert AuditEntry.objects.get().action == "user.changed"
