"""Who is asking, and from which page: on a loopback start the one local user, otherwise whoever signed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from . import limits, sign_ins
from .addresses import is_loopback
from .users import local_user

_WITHOUT_COOKIE = ("/api/", "/healthz", "/readyz", "/metrics")  # programs: a token, or nothing
_FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded")
_BACKEND = "django.contrib.auth.backends.ModelBackend"
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_OURS: Final = ("same-origin", "none")  # `none`: typed, or a bookmark
POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


class BrowserRules(MiddlewareMixin):
    """Tells browsers what our pages may do, and turns away what other pages make them send."""

    get_response: Callable[[HttpRequest], HttpResponseBase]

    def process_request(self, request: HttpRequest) -> None:
        if request.headers.get("Sec-Fetch-Site", "none") not in _OURS and not _is_visit(request):
            raise PermissionDenied("This was sent by a page of another origin.")

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response


def _is_visit(request: HttpRequest) -> bool:
    """Whether somebody follows a link to us, in a window of its own: that shows a page and changes nothing."""
    to_a_page = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
    return request.method in ("GET", "HEAD") and to_a_page == ("navigate", "document")


class LocalUserMiddleware(MiddlewareMixin):
    """Signs a browser on this machine in, with a session cookie that its sockets can use too."""

    get_response: Callable[[HttpRequest], HttpResponseBase]

    def process_request(self, request: HttpRequest) -> None:
        if request.user.is_authenticated:
            sign_ins.note_seen(request)
        elif is_local(request):
            login(request, local_user(), backend=_BACKEND)


class CallLimit(MiddlewareMixin):
    """Counts the forms that a user sends. The API counts its calls itself, by token."""

    get_response: Callable[[HttpRequest], HttpResponseBase]

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.method != "POST" or request.user.pk is None or request.path.startswith(_WITHOUT_COOKIE):
            return None
        try:
            limits.spend(request.user.pk)
        except limits.TooMany as e:
            why = f"{e.message[0].upper()}{e.message[1:]}."
            return HttpResponse(why, status=429, content_type="text/plain", headers={"Retry-After": str(e.seconds)})
        return None


class SignInRequired(LoginRequiredMiddleware):
    """Pages are for whoever is signed in, unless they say otherwise. The API asks for a token itself."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if request.path.startswith(_WITHOUT_COOKIE):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)

    def get_login_url(self, view_func: Callable[..., Any]) -> str:
        """There is one way to sign in."""
        return str(settings.LOGIN_URL)


def is_local(request: HttpRequest) -> bool:
    """Whether this is a page request from this very machine, to a name that is ours, through no proxy.

    The Host check (`get_host` raises DisallowedHost) keeps a foreign name that resolves to loopback out; where
    any name is allowed, only the names of loopback are local.
    """
    if not settings.SIDECHAT_LOCAL_MODE or request.path.startswith(_WITHOUT_COOKIE):
        return False
    if any(name in request.headers for name in _FORWARDED):
        return False
    named = [*_LOOPBACK_NAMES, *(name for name in settings.ALLOWED_HOSTS if name[:1] not in ("*", "."))]
    domain, _ = split_domain_port(request.get_host())
    return validate_host(domain, named) and is_loopback(request.META.get("REMOTE_ADDR", ""))
