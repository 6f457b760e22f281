"""Bearer tokens: issued once in clear, looked up by hash."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from sidechat_web.storage.ids import now_ms

from .models import ApiToken
from .users import local_user

LOCAL_NAME = "This computer (api-token)"
_PREFIX = "sc_"
_USE_NOTED_EVERY_MS = 60_000


def issue(user: User, name: str, *, scope: str = ApiToken.Scope.WRITE, expires_at: int | None = None) -> str:
    """A new token of `user`, in clear: it cannot be read again. `expires_at` is epoch ms."""
    raw = _PREFIX + secrets.token_urlsafe(32)
    ApiToken.objects.create(user=user, name=name, digest=_digest(raw), scope=scope, expires_at=expires_at)
    return raw


def find(raw: str) -> ApiToken | None:
    """The token with its active user; None for one that is unknown, expired or revoked."""
    token = valid_tokens().select_related("user").filter(digest=_digest(raw)).first()
    if token is not None:
        _note_use(token)
    return token


def user_for_token(raw: str) -> User | None:
    """The active user whose token this is, whatever it is good for."""
    token = find(raw)
    return token.user if token else None


def valid_tokens() -> QuerySet[ApiToken]:
    """Tokens that open the API now."""
    unexpired = Q(expires_at=None) | Q(expires_at__gt=now_ms())
    return ApiToken.objects.filter(unexpired, revoked_at=None, user__is_active=True)


def revoke(user: User, token_id: int) -> bool:
    """Whether `user` had such a token; it opens nothing from now on."""
    return bool(ApiToken.objects.filter(user=user, pk=token_id, revoked_at=None).update(revoked_at=now_ms()))


def local_token() -> str:
    """The local user's token, kept in DATA_DIR/api-token (mode 0600) and re-used while it is valid."""
    file = settings.DATA_DIR / "api-token"
    kept = _read(file)
    if kept and user_for_token(kept) == local_user():
        return kept
    raw = issue(local_user(), LOCAL_NAME)
    _write(file, raw)
    return raw


def _digest(raw: str) -> str:
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()


def _note_use(token: ApiToken) -> None:
    now = now_ms()
    if token.last_used_at is None or now - token.last_used_at >= _USE_NOTED_EVERY_MS:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _write(file: Path, raw: str) -> None:
    """Replace the file in one step, so that a reader sees a whole token or none."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(raw + "\n")
    draft.replace(file)
