"""The error shape for what no API view answered: unknown paths, wrong methods, refused hosts, bugs."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.utils.deprecation import MiddlewareMixin

from sidechat_web.runtime.observing import metrics

from . import errors

_PROBES: Final = ("/healthz", "/readyz")  # asked by address, and say nothing of any user


class KnownHosts(CommonMiddleware):
    """Refuses a Host that is not ours, but to what looks after the process."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        return None if request.path in _PROBES else super().process_request(request)


class ErrorEnvelope(MiddlewareMixin):
    """Stands first, so that it sees, and counts, what every other middleware answers."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        metrics.http.add(status=f"{response.status_code // 100}xx")
        if not request.path.startswith("/api/") or response.status_code < 400:
            return response
        if response.get("Content-Type", "").startswith("application/json"):
            return response
        enveloped = errors.answer(response.status_code)
        if "Allow" in response:
            enveloped["Allow"] = response["Allow"]
        return enveloped
