"""Who else may read or write a session: for its owner alone."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router, Status

from sidechat_web.accounts import audit
from sidechat_web.runtime import sharing
from sidechat_web.storage.models import Share

from . import auth, schemas

router = Router(tags=["sharing"], exclude_unset=True)


@router.get("/sessions/{session_id}/shares", response=list[schemas.Share])
def list_shares(request: HttpRequest, session_id: str) -> list[dict[str, Any]]:
    """Who may read or write this session and the sides below it, by name."""
    return [_shape(one) for one in sharing.shares_of(auth.own_session(request, session_id))]


@router.post("/sessions/{session_id}/shares", response={200: schemas.Share})
def share_session(request: HttpRequest, session_id: str, body: schemas.NewShare) -> Status[Any]:
    """Share this session, and the sides below it, with another user, or change what they may."""
    made = sharing.share(auth.own_session(request, session_id), body.user, write=body.may == "write")
    audit.record(auth.caller(request), request, "session.shared", session_id, user=body.user, may=body.may)
    return Status(200, _shape(made))


@router.delete("/sessions/{session_id}/shares/{user}", response=schemas.Share)
def end_share(request: HttpRequest, session_id: str, user: str) -> dict[str, Any]:
    """Stop sharing with a user. Sides that they opened stay theirs."""
    session = auth.own_session(request, session_id)
    found = sharing.shares_of(session).filter(user__username=user.replace("\0", "")).first()
    if found is None:
        raise Http404
    sharing.unshare(session, user)
    audit.record(auth.caller(request), request, "session.shared", session_id, user=user, may="nothing")
    return _shape(found)


def _shape(share: Share) -> dict[str, Any]:
    return {"user": share.user.get_username(), "may": "write" if share.write else "read"}
