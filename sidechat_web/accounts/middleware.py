"""Who is asking: on a loopback start the one local user, otherwise whoever signed in."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from .users import local_user

_WITHOUT_COOKIE = ("/api/", "/healthz", "/readyz")  # programs: a token, or nothing
_FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded")
_BACKEND = "django.contrib.auth.backends.ModelBackend"


class LocalUserMiddleware(MiddlewareMixin):
    """Signs a browser on this machine in, with a session cookie that its sockets can use too."""

    get_response: Callable[[HttpRequest], HttpResponseBase]

    def process_request(self, request: HttpRequest) -> None:
        if is_local(request) and not request.user.is_authenticated:
            login(request, local_user(), backend=_BACKEND)


def is_local(request: HttpRequest) -> bool:
    """Whether this is a page request from this very machine, to a name that is ours, through no proxy.

    The Host check (`get_host` raises DisallowedHost) keeps a foreign name that resolves to loopback out.
    """
    if not settings.SIDECHAT_LOCAL_MODE or request.path.startswith(_WITHOUT_COOKIE):
        return False
    if any(name in request.headers for name in _FORWARDED):
        return False
    return bool(request.get_host()) and _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback
