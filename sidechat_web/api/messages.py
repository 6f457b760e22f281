"""Messages: the derived history, and what a user adds to it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from sidechat_web.runtime import commands, queue
from sidechat_web.storage import reading

from . import auth, quoting, schemas
from .lossless import json_response

router = Router(tags=["messages"], exclude_unset=True)


@router.get("/sessions/{session_id}/messages", response=schemas.Messages)
def list_messages(request: HttpRequest, session_id: str) -> HttpResponse:
    """The derived history: exactly what a model would see now, seed included."""
    session = auth.session(request, session_id)
    return json_response({"messages": reading.repaired(session).messages()})


@router.post("/sessions/{session_id}/messages", response={202: schemas.Accepted})
def send_message(request: HttpRequest, session_id: str, body: schemas.NewMessage) -> Status[Any]:
    """Accept a message; it is durable before the answer."""
    session = auth.session(request, session_id, write=True)
    item = commands.say(session, body.text, body.mode, quotes=quoting.resolve(request, body.quotes, session))
    return Status(202, {"item": queue.as_json(item)})
