"""Sessions from sessions: sides, ordinary forks, retries."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat.side import open_side, renew
from sidechat_web.runtime.views import session_json

from . import auth, quoting, schemas

router = Router(tags=["forks"], exclude_unset=True)


@router.post("/sessions/{session_id}/fork", response={201: schemas.Session})
def fork_session(request: HttpRequest, session_id: str, body: schemas.NewFork | None = None) -> Status[Any]:
    """A child with the stable prefix, or with everything up to the turn of the message at `atSeq`.

    `text` with `quotes` is its first message, accepted in the same transaction; quotes are from the parent unless
    they say otherwise. 409 `turn_open` for an `atSeq` in the open turn.
    """
    parent = auth.session(request, session_id)
    wanted = body or schemas.NewFork()
    make = open_side if wanted.side else commands.fork
    child = make(
        parent,
        owner=auth.caller(request),
        at_seq=wanted.atSeq,
        title=wanted.title or "",
        model=wanted.model or "",
        text=wanted.text,
        quotes=quoting.resolve(request, wanted.quotes, parent),
    )
    return Status(201, session_json(auth.session(request, child.pk)))


@router.post("/sessions/{session_id}/renew", response={201: schemas.Session})
def renew_side(request: HttpRequest, session_id: str, body: schemas.Renewal | None = None) -> Status[Any]:
    """A new side from what the parent is now, which carries what this side said as one quoted message.

    409 `nothing_new` where the parent has not moved on, `turn_open` while this side answers, `parent_gone`.
    """
    side = auth.side_to_renew(request, session_id)
    wanted = body or schemas.Renewal()
    renewed = renew(
        side,
        owner=auth.caller(request),
        title=wanted.title or "",
        model=wanted.model or "",
        text=wanted.text,
        quotes=quoting.resolve(request, wanted.quotes, side),
    )
    return Status(201, session_json(auth.session(request, renewed.pk)))


@router.post("/sessions/{session_id}/retry", response={201: schemas.Session})
def retry_turn(request: HttpRequest, session_id: str, body: schemas.Retry) -> Status[Any]:
    """An ordinary fork before the turn of the user's message at `seq`, with that message (or `text`) sent."""
    parent = auth.session(request, session_id)
    child = commands.retry(parent, body.seq, body.text, owner=auth.caller(request))
    return Status(201, session_json(auth.session(request, child.pk)))
