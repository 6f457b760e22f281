"""Who calls: the user of the bearer token. A cookie opens nothing here."""

from __future__ import annotations

from typing import Final, cast

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest
from ninja.security import HttpBearer

from sidechat_web.accounts import limits, tokens
from sidechat_web.accounts.models import ApiToken
from sidechat_web.core.errors import SidechatError
from sidechat_web.storage import access
from sidechat_web.storage.ids import is_id
from sidechat_web.storage.models import Session

_READING: Final = ("GET", "HEAD", "OPTIONS")


class Bearer(HttpBearer):
    """`Authorization: Bearer TOKEN`. A token with the scope `read` only reads."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        found = tokens.find(token.strip())
        if found is None:
            return None
        if found.scope == ApiToken.Scope.READ and request.method not in _READING:
            raise SidechatError("this token is for reading only", "token_read_only")
        if request.method not in _READING:
            limits.spend(found.user_id, limits.IMPORT if request.path == "/api/import" else 1)
        return found.user


def caller(request: HttpRequest) -> User:
    return cast(User, request.auth)  # type: ignore[attr-defined]


def session(request: HttpRequest, session_id: str, *, write: bool = False) -> Session:
    """The caller's session. Raises Session.DoesNotExist, the same for absent, deleted and foreign."""
    if not is_id(session_id):
        raise Session.DoesNotExist
    return access.session_for(caller(request), session_id, write=write)


def own_session(request: HttpRequest, session_id: str) -> Session:
    """A session of the caller's own: what only an owner does. Raises access.Forbidden for one that is shared."""
    if not is_id(session_id):
        raise Session.DoesNotExist
    return access.own_session_for(caller(request), session_id)


def side_to_merge(request: HttpRequest, session_id: str) -> Session:
    """A session whose note the caller may put into its parent."""
    if not is_id(session_id):
        raise Session.DoesNotExist
    return access.side_to_merge(caller(request), session_id)


def side_to_renew(request: HttpRequest, session_id: str) -> Session:
    """A session whose parent the caller may read, too."""
    if not is_id(session_id):
        raise Session.DoesNotExist
    return access.side_to_renew(caller(request), session_id)


def item_id(text: str) -> str:
    """The id of a row of a session. Raises Http404 for what cannot be one."""
    if not is_id(text):
        raise Http404
    return text
