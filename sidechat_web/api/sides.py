"""A side beside its parent: what it knows, what it was merged into, and a new one that knows more."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime.sidechat import merge_back
from sidechat_web.runtime.sidechat.side import first_cached_share, knows, renew
from sidechat_web.runtime.views import session_json
from sidechat_web.storage.models import Session

from . import auth, quoting, schemas

router = Router(tags=["sides"], exclude_unset=True)


@router.get("/sessions/{session_id}/side", response=schemas.Side)
def read_side(request: HttpRequest, session_id: str) -> dict[str, Any]:
    """What a side knows, and whether and where it was merged. 409 `not_a_side` for any other session."""
    side = auth.session(request, session_id)
    if side.kind != Session.Kind.SIDE:
        raise SidechatError("this is not a side session", "not_a_side")
    known = knows(side)
    why = merge_back.why_not(side)
    optional = {
        "runningTurn": known["running_turn"],
        "summary": known["summary"],
        "carried": known["carried"],
        "firstCachedShare": first_cached_share(side),
        "whyNot": why and {"code": why[0], "message": why[1]},
    }
    return {
        "turn": known["turn"],
        "behind": known["behind"],
        "ownSystem": known["own_system"],
        "ownModel": known["own_model"],
        "merged": merge_back.merged_into(side),
        "mergeable": why is None,
        **{name: value for name, value in optional.items() if value is not None},
    }


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
