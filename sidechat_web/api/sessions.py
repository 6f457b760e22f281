"""Sessions: make, list, read, change, delete."""

from __future__ import annotations

from typing import Any, Literal

from django.db import transaction
from django.http import HttpRequest
from ninja import Router, Status
from ninja.params.functions import Query

from sidechat_web.runtime import commands
from sidechat_web.runtime.views import session_json
from sidechat_web.storage import access, search

from . import auth, listing, schemas

router = Router(tags=["sessions"], exclude_unset=True)
MAX_SESSIONS = 1000


@router.post("/sessions", response={201: schemas.Session})
def create_session(request: HttpRequest, body: schemas.NewSession | None = None) -> Status[Any]:
    """A new, empty session; model and system prompt are pinned now."""
    wanted = body or schemas.NewSession()
    session = commands.create(
        auth.caller(request),
        title=wanted.title or "",
        model=wanted.model or "",
        system=wanted.system,
        cwd=wanted.cwd,
    )
    return Status(201, session_json(session))


@router.get("/sessions", response=schemas.SessionPage)
def list_sessions(
    request: HttpRequest,
    q: schemas.Text = Query("", max_length=200, description="Beginnings of words; see above."),
    archived: bool = Query(False, description="The archived ones instead of the others."),
    limit: int = Query(200, ge=1, description="More than 1,000 counts as 1,000."),
    cursor: schemas.Text = Query("", max_length=200, description="The `next` of the page before."),
) -> dict[str, Any]:
    """Flat, newest activity first; parents come with their sides, whether or not they match themselves.

    With `q` those whose title has every word of it, or one of whose messages has words that begin so. `match` is
    the newest such message. What a fork inherited is found in the session where it was said.
    """
    start = listing.Cursor.parse(cursor) if cursor else None
    visible = access.visible(auth.caller(request))
    found, end = listing.page(visible, q=q, archived=archived, limit=min(limit, MAX_SESSIONS), cursor=start)
    hits = search.newest_hits(visible, found, q)
    listed = [{**session_json(session), **_match(hits.get(session.pk))} for session in found]
    return {"sessions": listed, "next": str(end) if end else None}


@router.get("/sessions/{session_id}", response=schemas.Session)
def read_session(request: HttpRequest, session_id: str) -> dict[str, Any]:
    """One session."""
    return session_json(auth.session(request, session_id))


@router.patch("/sessions/{session_id}", response=schemas.Session)
def change_session(request: HttpRequest, session_id: str, body: schemas.SessionChange) -> dict[str, Any]:
    """Rename, choose a model, archive or pin: all of it or nothing."""
    session = auth.session(request, session_id, write=True)
    with transaction.atomic():
        if body.title is not None:
            commands.rename(session, body.title)
        if body.model is not None:
            commands.set_model(session, body.model)
    commands.set_flags(session, archived=body.archived, pinned=body.pinned)
    return session_json(auth.session(request, session_id))


@router.delete("/sessions/{session_id}", response=schemas.Deletion)
def delete_session(
    request: HttpRequest,
    session_id: str,
    sides: Literal["delete", "keep"] | None = Query(None, description="What happens to its side sessions."),
) -> dict[str, list[str]]:
    """Delete a session. Where it has sides and `sides` does not say what to do: 409 `has_sides`."""
    return dict(commands.delete(auth.own_session(request, session_id), sides))


def _match(hit: search.Hit | None) -> dict[str, Any]:
    return {"match": {"seq": hit.seq, "text": search.texts(hit.snippet)}} if hit else {}
