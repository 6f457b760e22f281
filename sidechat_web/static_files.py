"""Static files, answered ahead of Django: no session, no database, no thread for them.

They come straight from our folder and from the installed packages, without a collecting step. Compressed
copies are made on first request and kept; browsers revalidate by ETag.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from asgiref.sync import sync_to_async
from whitenoise.middleware import WhiteNoiseMiddleware

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

COMPRESSED: Final = ("text/", "image/svg+xml", "application/json")


class StaticFiles:
    """Serves what lies under STATIC_URL and passes everything else on to `application`."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._files = WhiteNoiseMiddleware()
        self._compressed: dict[tuple[str, str], bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._find(scope["path"]) if scope["type"] == "http" else None
        if file is None:
            return await self._application(scope, receive, send)
        status, headers, body = await sync_to_async(self._answer, thread_sensitive=False)(file, scope)
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})

    def _find(self, path: str) -> Any:
        if not path.startswith(self._files.static_prefix):
            return None
        return self._files.find_file(path) if self._files.autorefresh else self._files.files.get(path)

    def _answer(self, file: Any, scope: Scope) -> tuple[int, dict[str, str], bytes]:
        asked = {
            f"HTTP_{k.decode('latin-1').upper().replace('-', '_')}": v.decode("latin-1") for k, v in scope["headers"]
        }
        response = file.get_response(scope["method"], asked)
        headers, body = dict(response.headers), b""
        if response.file is not None:
            with response.file:
                body = response.file.read()
        if headers.get("Content-Type", "").startswith(COMPRESSED):
            headers["Vary"] = "Accept-Encoding"
            if response.status == 200 and body and "gzip" in asked.get("HTTP_ACCEPT_ENCODING", ""):
                body = self._compress(scope["path"], headers["ETag"], body)
                headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(body))}
        return int(response.status), headers, body

    def _compress(self, path: str, etag: str, body: bytes) -> bytes:
        key = (path, etag)
        if key not in self._compressed:
            self._compressed[key] = gzip.compress(body, mtime=0)
        return self._compressed[key]
