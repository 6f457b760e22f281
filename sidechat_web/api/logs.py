"""Logs as files: out, and in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, cast

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Status
from ninja.params.functions import Query

from sidechat_web.core.errors import SidechatError
from sidechat_web.formats import exporting
from sidechat_web.formats.importing import import_logs
from sidechat_web.runtime.views import session_json

from . import auth, schemas
from .idempotency import keys_itself, once

router = Router(tags=["logs"], exclude_unset=True)
MAX_IMPORT_BYTES: Final = 1 << 30
_IN_MEMORY_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 16

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_EXPORT: Final = {
    "responses": {
        200: {
            "description": "A file",
            "content": {
                "application/x-ndjson": _BINARY,
                "text/markdown": _BINARY,
                "application/json": {"schema": {"type": "object"}},
            },
        }
    }
}
_UPLOAD: Final = {"requestBody": {"required": True, "content": {"application/octet-stream": _BINARY}}}


@router.get("/sessions/{session_id}/export", openapi_extra=_EXPORT)
def export_session(
    request: HttpRequest,
    session_id: str,
    format: exporting.Format = Query("dsh"),
) -> StreamingHttpResponse:
    """The session as a file. `dsh` of an imported, untouched log is its plain text, byte for byte."""
    found = exporting.export(auth.session(request, session_id), format)
    return StreamingHttpResponse(found.pieces(), headers=found.headers)


@router.post("/import", response={201: schemas.Imported}, openapi_extra=_UPLOAD)
@keys_itself
def import_log(request: HttpRequest) -> Status[Any]:
    """Take in one log, plain or Zstandard: all of it or nothing. The same log again adds nothing."""
    with _received(request) as (file, digest):
        return once(request, lambda: _imported(request, file), body_digest=digest)


def _imported(request: HttpRequest, file: IO[bytes]) -> Status[Any]:
    found = import_logs(auth.caller(request), [("upload", cast(Any, file))])
    return Status(201, {"sessions": [session_json(session) for session in found]})


@contextmanager
def _received(request: HttpRequest) -> Iterator[tuple[IO[bytes], str]]:
    """The body as a file, and its digest. Raises SidechatError `too_large`."""
    digest, size = hashlib.sha256(), 0
    with SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
        while piece := request.read(_PIECE_BYTES):
            size += len(piece)
            if size > MAX_IMPORT_BYTES:
                raise SidechatError(f"a log of more than {MAX_IMPORT_BYTES} bytes is not taken", "too_large")
            digest.update(piece)
            file.write(piece)
        file.seek(0)
        yield file, digest.hexdigest()
