"""Who calls: the user of the bearer token. A cookie opens nothing here."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest
from ninja.security import HttpBearer

from sidechat_web.accounts import user_for_token
from sidechat_web.storage import access
from sidechat_web.storage.models import Session


class Bearer(HttpBearer):
    """`Authorization: Bearer TOKEN`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return user_for_token(token.strip())


def caller(request: HttpRequest) -> User:
    return cast(User, request.auth)  # type: ignore[attr-defined]


def session(request: HttpRequest, session_id: str, *, write: bool = False) -> Session:
    """The caller's session. Raises Session.DoesNotExist, the same for absent, deleted and foreign."""
    if not is_id(session_id):
        raise Session.DoesNotExist
    return access.session_for(caller(request), session_id, write=write)


def item_id(text: str) -> str:
    """The id of a row of a session. Raises Http404 for what cannot be one."""
    if not is_id(text):
        raise Http404
    return text


def is_id(text: str) -> bool:
    """Whether this could be an id of ours at all: 26 characters of `[a-z0-9]`."""
    return len(text) == 26 and text.isascii() and text.isalnum() and text == text.lower()
