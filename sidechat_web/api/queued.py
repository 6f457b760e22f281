"""The queue: accepted messages that have not started."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from sidechat_web.runtime import commands, queue

from . import auth, schemas

router = Router(tags=["messages"], exclude_unset=True)


@router.get("/sessions/{session_id}/queue", response=schemas.Queue)
def list_queue(request: HttpRequest, session_id: str) -> dict[str, Any]:
    """Messages that have not started, in order."""
    session = auth.session(request, session_id)
    return {"items": [queue.as_json(item) for item in queue.typed(session)]}


@router.patch("/sessions/{session_id}/queue/{item_id}", response=schemas.Accepted)
def change_queued(request: HttpRequest, session_id: str, item_id: str, body: schemas.QueueChange) -> dict[str, Any]:
    """Edit or move a message that has not started; 409 `started` for one that has."""
    session = auth.session(request, session_id, write=True)
    wanted = body.model_dump(include={"text", "position", "mode"})
    return {"item": queue.as_json(commands.edit_queued(session, auth.item_id(item_id), **wanted))}


@router.delete("/sessions/{session_id}/queue/{item_id}", response=schemas.Accepted)
def remove_queued(request: HttpRequest, session_id: str, item_id: str) -> dict[str, Any]:
    """Take a message back that has not started; 409 `started` for one that has."""
    session = auth.session(request, session_id, write=True)
    return {"item": queue.as_json(commands.remove_queued(session, auth.item_id(item_id)))}
