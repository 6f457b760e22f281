"""Every refusal as `{"error": {"code", "message"}}` with the status that its code stands for."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from sidechat_web.accounts.limits import TooMany
from sidechat_web.core.errors import LogRefused, SidechatError
from sidechat_web.storage.models import Session

_CONFLICT: Final = frozenset(
    {
        "cancelled",
        "conflict",
        "decided",
        "delivered",
        "handback_stopped",
        "has_sides",
        "idempotency_mismatch",
        "not_a_side",
        "not_on_surface",
        "nothing_new",
        "parent_gone",
        "parent_read_only",
        "read_only",
        "side_gone",
        "started",
        "turn_gone",
        "turn_open",
    }
)
_STATUS: Final = {
    **dict.fromkeys(_CONFLICT, 409),
    "bad_cursor": 400,
    "bad_idempotency_key": 400,
    "bad_json": 400,
    "handback_empty": 503,
    "handback_failed": 503,
    "local_model": 503,
    "no_user": 404,
    "not_found": 404,
    "not_owner": 403,
    "parent_forbidden": 403,
    "shared_read_only": 403,
    "token_read_only": 403,
    "too_large": 413,
    "too_many_requests": 429,
    "too_long": 413,
    "unavailable": 503,
}
_BY_STATUS: Final = {
    400: ("bad_request", "the request cannot be understood"),
    401: ("unauthorized", "a valid token is needed: Authorization: Bearer TOKEN"),
    403: ("forbidden", "this is not allowed"),
    404: ("not_found", "there is nothing here, or it is not yours"),
    405: ("method_not_allowed", "this path does not take this method"),
    413: ("too_large", "the request is too large"),
    429: ("too_many_requests", "too many requests; try again later"),
    503: ("unavailable", "the service cannot answer now; try again"),
}
_INTERNAL: Final = ("internal", "something went wrong here; the server's log has the details")


def status_of(code: str) -> int:
    """The HTTP status of a refusal; 422 for what was understood and cannot be done."""
    return _STATUS.get(code, 422)


def answer(status: int, code: str | None = None, message: str | None = None, **more: Any) -> JsonResponse:
    """An error response; code and message default to those of the status."""
    default_code, default_message = _BY_STATUS.get(status, _INTERNAL)
    error = {"code": code or default_code, "message": message or default_message}
    error.update({name: value for name, value in more.items() if value is not None})
    response = JsonResponse({"error": error}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def install(api: NinjaAPI) -> None:
    """Make `api` answer every exception that bad input can cause in the one shape."""
    api.add_exception_handler(SidechatError, _refused)
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(HttpError, _http)
    for absent in (Http404, Session.DoesNotExist):
        api.add_exception_handler(absent, lambda request, e: answer(404))
    for unreadable in (SuspiciousOperation, UnreadablePostError, MultiPartParserError):
        api.add_exception_handler(unreadable, lambda request, e: answer(400))
    api.add_exception_handler(RequestDataTooBig, lambda request, e: answer(413))
    for down in (OperationalError, InterfaceError):
        api.add_exception_handler(down, lambda request, e: answer(503))
    api.add_exception_handler(Exception, _unexpected)


def _refused(request: HttpRequest, e: SidechatError | type[SidechatError]) -> HttpResponse:
    assert isinstance(e, SidechatError)
    if isinstance(e, TooMany):
        response = answer(429, e.code, e.message)
        response["Retry-After"] = str(e.seconds)
        return response
    where = {"line": e.line, "file": e.file, "reason": e.reason} if isinstance(e, LogRefused) else {}
    return answer(status_of(e.code), e.code, e.message, **where)


def _invalid(request: HttpRequest, e: ValidationError | type[ValidationError]) -> HttpResponse:
    assert isinstance(e, ValidationError)
    faults = [f"{_place(fault['loc'])}: {fault['msg']}" for fault in e.errors[:5]]
    return answer(422, "invalid", "; ".join(faults).encode("utf-8", "replace").decode())


def _place(loc: tuple[Any, ...]) -> str:
    """Where a fault is, as its author wrote it: without the names that only our code knows."""
    return ".".join(str(part)[:100] for part in loc if part != "body") or "body"


def _http(request: HttpRequest, e: HttpError | type[HttpError]) -> HttpResponse:
    assert isinstance(e, HttpError)
    if e.status_code == 400:
        return answer(400, "bad_json", "the body is not JSON")
    return answer(e.status_code)


def _unexpected(request: HttpRequest, e: Exception | type[Exception]) -> HttpResponse:
    """A bug: Django logs it, `ErrorEnvelope` answers."""
    assert isinstance(e, Exception)
    raise e
