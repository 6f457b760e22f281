"""Who opens a socket, and whether they still may see what it shows.

A browser says who it is by its session cookie, and then its Origin must be our own host: a cookie is sent
along by any page that opens a socket. A program says it by a token, in the Authorization header or in
`?token=`. A foreign Origin or Host is refused in any case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host

from sidechat_web.accounts.tokens import user_for_token
from sidechat_web.storage.access import visible
from sidechat_web.storage.models import Session

Asked: TypeAlias = "tuple[Credential, str]"  # session id, or "" for the tree


class Refused(Exception):
    """A handshake that must not succeed: its Host or Origin is not ours."""


@dataclass(frozen=True, slots=True)
class Credential:
    """How a caller says who they are; it is looked up anew at each check."""

    kind: Literal["token", "cookie", "none"]
    secret: str = ""

    def user(self) -> AbstractBaseUser | None:
        """The active user whose credential this is, or None. Reads the database."""
        if self.kind == "token":
            return user_for_token(self.secret)
        if self.kind == "cookie":
            return _user_of_cookie(self.secret)
        return None


def credential(scope: dict[str, Any]) -> Credential:
    """What a handshake brings. Raises Refused."""
    headers = {name.decode("latin1").lower(): value.decode("latin1") for name, value in scope["headers"]}
    _check_host(headers)
    if token := _token(headers, scope["query_string"]):
        return Credential("token", token)
    cookie = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    if cookie and "origin" in headers:
        return Credential("cookie", cookie)
    return Credential("none")


def user_for(credential: Credential, session_id: str = "") -> AbstractBaseUser | None:
    """Who opens a socket, and may see `session_id` if one is named; None for absent and foreign sessions alike."""
    user = credential.user()
    if user is None or (session_id and not visible(user).filter(pk=session_id).exists()):
        return None
    return user


def lost(asked: Collection[Asked]) -> dict[Asked, Literal["deleted", "forbidden"]]:
    """Those of `asked` that are no longer good, and why. Looks each credential up once."""
    out: dict[Asked, Literal["deleted", "forbidden"]] = {}
    for one in {credential for credential, _ in asked}:
        user = one.user()
        ids = {session_id for credential, session_id in asked if credential == one}
        seen = set(visible(user).filter(pk__in=ids).values_list("pk", flat=True)) | {""} if user else set()
        living = set(Session.objects.filter(pk__in=ids - seen, deleted_at=None).values_list("pk", flat=True))
        for session_id in ids - seen:
            out[one, session_id] = "deleted" if user and session_id not in living else "forbidden"
    return out


def _check_host(headers: dict[str, str]) -> None:
    host = headers.get("host", "")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise Refused(f"host {host!r} is not allowed")
    if "origin" in headers and not _same_host(headers["origin"], host):
        raise Refused(f"origin {headers['origin']!r} is not {host!r}")


def _same_host(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
        default = {"http": 80, "https": 443}[parts.scheme]
        domain, port = split_domain_port(host)
        return (parts.hostname, parts.port or default) == (domain.strip("[]"), int(port or default))
    except (ValueError, KeyError):
        return False


def _token(headers: dict[str, str], query: bytes) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return parse_qs(query.decode("latin1")).get("token", [""])[0]


def _user_of_cookie(key: str) -> AbstractBaseUser | None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return user if isinstance(user, AbstractBaseUser) and user.is_authenticated else None
