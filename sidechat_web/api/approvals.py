"""Tool calls that wait for the user."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router, Status

from sidechat_web.runtime import approvals
from sidechat_web.storage import access
from sidechat_web.storage.models import Approval

from . import auth, schemas

router = Router(tags=["approvals"], exclude_unset=True)


@router.get("/sessions/{session_id}/approvals", response=list[schemas.Approval])
def list_approvals(request: HttpRequest, session_id: str) -> list[dict[str, Any]]:
    """The open ones, oldest first."""
    return [approvals.as_json(row) for row in approvals.open_approvals(auth.session(request, session_id))]


@router.post("/approvals/{approval_id}", response={200: schemas.Decided})
def decide(request: HttpRequest, approval_id: str, body: schemas.Decision) -> Status[Any]:
    """Answer an open approval. The same decision again changes nothing; another one is 409 `decided`."""
    row = Approval.objects.filter(pk=auth.item_id(approval_id)).first()
    if row is None:
        raise Http404
    access.session_for(auth.caller(request), row.session_id, write=True)
    row = approvals.decide(row, body.decision)
    return Status(200, {**approvals.as_json(row), "decision": row.decision})
