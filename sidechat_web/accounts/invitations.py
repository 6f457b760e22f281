"""Links with which one person makes an account: shown once, kept as a hash, used once."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from sidechat_web.core.errors import SidechatError
from sidechat_web.storage.ids import now_ms

from . import users
from .models import Invitation

LASTS_MS: Final = 7 * 86_400_000


def invite(made_by: User, *, admin: bool = False) -> str:
    """The secret part of a new link, in clear: it cannot be read again."""
    raw = secrets.token_urlsafe(32)
    Invitation.objects.create(digest=_digest(raw), admin=admin, made_by=made_by, expires_at=now_ms() + LASTS_MS)
    return raw


def pending() -> QuerySet[Invitation]:
    """Invitations that can still be used, newest first. One of somebody who is no admin any more cannot."""
    makers = {"made_by__is_active": True, "made_by__is_superuser": True}
    living = Invitation.objects.filter(ended_at=None, expires_at__gt=now_ms(), **makers)
    return living.select_related("made_by").order_by("-created_at")


def find(raw: str) -> Invitation | None:
    return pending().filter(digest=_digest(raw)).first()


def withdraw(invitation_id: int) -> bool:
    return bool(pending().filter(pk=invitation_id).update(ended_at=now_ms()))


@transaction.atomic
def accept(raw: str, name: str, password: str) -> User:
    """The account that the invitation is for. Raises SidechatError `invitation_gone`, or ValidationError."""
    found = find(raw)
    if found is None or not pending().filter(pk=found.pk).update(ended_at=now_ms()):
        raise SidechatError("this invitation was used, withdrawn or has expired", "invitation_gone")
    user = users.add(name, password, admin=found.admin)
    Invitation.objects.filter(pk=found.pk).update(user=user)
    return user


def _digest(raw: str) -> str:
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
