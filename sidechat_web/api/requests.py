"""What was sent to providers, rebuilt from the log."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router

from sidechat_web.runtime import requests

from . import auth, schemas

router = Router(tags=["record"], exclude_unset=True)


@router.get("/sessions/{session_id}/requests", response=list[schemas.Request])
def list_requests(request: HttpRequest, session_id: str) -> list[dict[str, Any]]:
    """The session's own requests, in order: one per attempt, numbered from 1."""
    return requests.list_requests(auth.session(request, session_id))


@router.get("/sessions/{session_id}/requests/{n}", response=schemas.RequestBody)
def read_request(request: HttpRequest, session_id: str, n: int) -> dict[str, Any]:
    """One request with its body, byte for byte what was sent."""
    session = auth.session(request, session_id)
    listed = requests.list_requests(session)
    if not 1 <= n <= len(listed):
        raise Http404
    return {**listed[n - 1], "body": requests.body(session, n)}
