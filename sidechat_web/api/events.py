"""The record of a session."""

from __future__ import annotations

from itertools import islice

from django.http import HttpRequest, HttpResponse
from ninja import Router
from ninja.params.functions import Query

from sidechat_web.core import codec
from sidechat_web.storage import reading

from . import auth, schemas
from .lossless import json_response

router = Router(tags=["record"], exclude_unset=True)
MAX_EVENTS = 1000


@router.get("/sessions/{session_id}/events", response=schemas.EventPage)
def list_events(
    request: HttpRequest,
    session_id: str,
    after: int = Query(-1, ge=-1, le=schemas.MAX_SEQ, description="Exclusive; -1 is the start."),
    limit: int = Query(200, ge=1, description="More than 1,000 counts as 1,000."),
    chunks: bool = Query(False, description="Also `assistant/chunk` events."),
) -> HttpResponse:
    """The effective log, seed included."""
    session = auth.session(request, session_id)
    found = reading.events(session, after=after, chunks=chunks)
    page = list(islice(found, min(limit, MAX_EVENTS)))
    more = len(page) >= min(limit, MAX_EVENTS) and page[-1].seq < session.next_seq - 1
    return json_response({"events": [codec.envelope(event) for event in page], "next": page[-1].seq if more else None})
