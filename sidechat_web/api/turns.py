"""Turns: stop the running one, go on after an interrupted one, compact what they left."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from sidechat_web.runtime import commands, queue

from . import auth, schemas

router = Router(tags=["turns"], exclude_unset=True)


@router.post("/sessions/{session_id}/stop", response={202: schemas.TurnStatus})
def stop_turn(request: HttpRequest, session_id: str) -> Status[Any]:
    """Ask the running turn to end; streamed text and the queue stay. Without a running turn nothing happens."""
    session = auth.session(request, session_id, write=True)
    commands.stop(session)
    return Status(202, {"status": session.status})


@router.post("/sessions/{session_id}/continue", response={202: schemas.Accepted})
def continue_turn(request: HttpRequest, session_id: str) -> Status[Any]:
    """Go on after an interruption: an ordinary user message."""
    item = commands.continue_(auth.session(request, session_id, write=True))
    return Status(202, {"item": queue.as_json(item)})


@router.post("/sessions/{session_id}/compact", response={202: schemas.TurnStatus})
def compact_session(request: HttpRequest, session_id: str) -> Status[Any]:
    """Replace the oldest part of what the model sees by a summary: now, or when the running turn has ended."""
    session = auth.session(request, session_id, write=True)
    commands.compact(session)
    return Status(202, {"status": session.status})
