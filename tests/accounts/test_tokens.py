"""Tokens: shown once, kept as a hash, refused once expired, revoked or their user is gone."""

import stat

import pytest
from django.contrib.auth.models import User

from sidechat_web.accounts import local_token, local_user, tokens, user_for_token
from sidechat_web.accounts.models import ApiToken
from sidechat_web.storage.ids import now_ms

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann():
    return User.objects.create_user("ann", password="a long password")


@pytest.fixture(autouse=True)
def data_dir(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    return tmp_path


def test_token_opens_for_its_user_and_is_not_stored_in_clear(ann):
    raw = tokens.issue(ann, "laptop")
    assert user_for_token(raw) == ann
    assert raw not in str(ApiToken.objects.values())


@pytest.mark.parametrize("raw", ["", "sc_", "nope", "\x00", "\ud800", "x" * 100_000])
def test_unknown_token_opens_nothing(ann, raw):
    tokens.issue(ann, "laptop")
    assert user_for_token(raw) is None


def test_expired_and_revoked_tokens_open_nothing(ann):
    expired = tokens.issue(ann, "old", expires_at=now_ms() - 1)
    revoked = tokens.issue(ann, "lost")
    assert tokens.revoke(ann, ApiToken.objects.get(name="lost").pk)
    assert user_for_token(expired) is None
    assert user_for_token(revoked) is None


def test_stranger_cannot_revoke(ann):
    raw = tokens.issue(ann, "laptop")
    bob = User.objects.create_user("bob")
    assert not tokens.revoke(bob, ApiToken.objects.get().pk)
    assert user_for_token(raw) == ann


def test_inactive_user_is_refused(ann):
    raw = tokens.issue(ann, "laptop")
    User.objects.update(is_active=False)
    assert user_for_token(raw) is None


def test_use_is_noted_but_not_with_every_call(ann):
    raw = tokens.issue(ann, "laptop")
    user_for_token(raw)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    ApiToken.objects.update(last_used_at=first - 1000)
    user_for_token(raw)
    assert ApiToken.objects.get().last_used_at == first - 1000


def test_local_user_is_one_and_has_no_password():
    assert local_user() == local_user()
    assert not local_user().has_usable_password()


def test_local_token_is_made_once_and_only_the_owner_may_read_it(data_dir):
    raw = local_token()
    assert local_token() == raw == (data_dir / "api-token").read_text().strip()
    assert stat.S_IMODE((data_dir / "api-token").stat().st_mode) == 0o600
    assert user_for_token(raw) == local_user()


@pytest.mark.parametrize("content", [None, b"", b"sc_unknown", "sc_ü".encode()])
def test_local_token_is_issued_anew_when_the_file_is_missing_or_unknown(data_dir, content):
    old = local_token()
    file = data_dir / "api-token"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    raw = local_token()
    assert raw != old
    assert user_for_token(raw) == local_user()
    assert [f.name for f in data_dir.iterdir()] == ["api-token"]


def test_local_token_is_issued_anew_when_revoked():
    old = local_token()
    ApiToken.objects.update(revoked_at=now_ms())
    assert local_token() != old
