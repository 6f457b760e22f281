"""Requests whose body is too large, turned away while it arrives: the server holds a body before anybody reads it."""

from __future__ import annotations

import json
from typing import Any, Final

from daphne.http_protocol import WebRequest
from django.conf import settings

from sidechat_web.api.logs import MAX_IMPORT_BYTES

MAX_FRAME_BYTES: Final = 1 << 16  # of what a client says on a socket, where nothing is expected
_IMPORTS: Final = {b"/api/import": b"Authorization", b"/import/": b"Cookie"}  # path → the header that says who asks
_SPARE_BYTES: Final = 1 << 20  # so that what is a little too large gets the application's own words
_REFUSAL: Final = json.dumps({"error": {"code": "too_large", "message": "the request is too large"}}).encode()
_ANSWER: Final = (
    b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_REFUSAL), _REFUSAL)
)


class BoundedRequest(WebRequest):  # type: ignore[misc]
    """Daphne's request with an end. A log may be as large as an import takes, of whoever says who they are."""

    received = 0
    turned_away = False

    def gotLength(self, length: int | None) -> None:
        super().gotLength(length)
        if length is not None and length > self._most():
            self._turn_away()

    def handleContentChunk(self, data: bytes) -> None:
        self.received += len(data)
        if self.received > self._most():
            self._turn_away()
        else:
            super().handleContentChunk(data)

    def _most(self) -> int:
        credential = _IMPORTS.get(self.channel._path.partition(b"?")[0])
        if credential is not None and self.requestHeaders.hasHeader(credential):
            return MAX_IMPORT_BYTES + _SPARE_BYTES
        return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) + _SPARE_BYTES

    def _turn_away(self) -> None:
        if not self.turned_away:
            self.turned_away = True
            self.channel.transport.write(_ANSWER)
            self.channel.loseConnection()


def bound(factory: Any) -> None:
    """Have Daphne's `HTTPFactory` make its protocols with bounded requests."""
    build = factory.buildProtocol

    def buildProtocol(address: Any) -> Any:
        protocol = build(address)
        protocol.requestFactory = BoundedRequest
        return protocol

    factory.buildProtocol = buildProtocol
