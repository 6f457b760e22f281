"""JSON in and out, strictly and losslessly."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.parser import Parser

from sidechat_web.core import jsontext


class StrictParser(Parser):
    """Refuses what Python reads and JSON does not have: NaN, the infinities, bytes that are not UTF-8."""

    def parse_body(self, request: HttpRequest) -> Any:
        return jsontext.loads(request.body.decode("utf-8"))


def json_response(value: Any) -> HttpResponse:
    """`value` as logs are written: nothing is refused, changed or left out that a log may hold."""
    return HttpResponse(jsontext.dump_bytes(value), content_type="application/json")
