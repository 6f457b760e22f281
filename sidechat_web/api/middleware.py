"""The error shape for what no API view answered: unknown paths, wrong methods, refused hosts, bugs."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from . import errors


class ErrorEnvelope(MiddlewareMixin):
    """Stands first, so that it sees what every other middleware answers."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not request.path.startswith("/api/") or response.status_code < 400:
            return response
        if response.get("Content-Type", "").startswith("application/json"):
            return response
        enveloped = errors.answer(response.status_code)
        if "Allow" in response:
            enveloped["Allow"] = response["Allow"]
        return enveloped
