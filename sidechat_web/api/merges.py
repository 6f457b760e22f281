"""From a side back into its parent: the draft, the note, its fate, its retraction; and promotion."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from sidechat_web.core import codec
from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime.sidechat import merge_back, side
from sidechat_web.runtime.sidechat.models import Merge
from sidechat_web.runtime.views import session_json
from sidechat_web.storage.models import Session

from . import auth, schemas
from .idempotency import once_begun
from .waiting import result_of

router = Router(tags=["merge back"], exclude_unset=True)


@router.post("/sessions/{session_id}/handback", response={200: schemas.Draft, 202: schemas.DraftPending})
async def draft_note(request: HttpRequest, session_id: str) -> Status[Any]:
    """The note that a merge would bring, written by the side and kept until the side goes on.

    202 where the side is still writing after 10 seconds: call again.
    """
    begin = partial(_ask_for_draft, request, session_id)
    return await once_begun(request, begin, partial(_draft_of, session_id))


@router.post("/sessions/{session_id}/merge", response={200: schemas.Merged, 202: schemas.MergePending})
async def merge_side(request: HttpRequest, session_id: str, body: schemas.NewMerge | None = None) -> Status[Any]:
    """Bring one note into the parent, exactly once for the same content.

    With `sides`, one note out of several sides of one parent: those that are named, and the one of this path;
    on the parent's path, those that are named. Refusals name the side.

    202 while the parent's turn runs, or where a side is still writing after 10 seconds.
    """
    begin = partial(_start_merge, request, session_id, body or schemas.NewMerge())
    return await once_begun(request, begin, _merged)


@router.get("/sessions/{session_id}/merges", response=list[schemas.Merge])
def list_merges(request: HttpRequest, session_id: str) -> list[dict[str, Any]]:
    """The merges out of this session, or into it, oldest first."""
    return merge_back.merges_of(auth.session(request, session_id))


@router.delete("/sessions/{session_id}/merges/{merge_id}", response=schemas.Merge)
def cancel_merge(request: HttpRequest, session_id: str, merge_id: str) -> dict[str, Any]:
    """Withdraw a merge that is not delivered yet."""
    session = auth.session(request, session_id, write=True)
    return merge_back.as_json(merge_back.cancel(session, auth.item_id(merge_id)))


@router.post("/sessions/{session_id}/retract", response={200: schemas.Event})
def retract_note(request: HttpRequest, session_id: str, body: schemas.Retraction) -> Status[Any]:
    """Take the note at `seq` off what the parent's model sees; the answer is the event that replaces it."""
    event = merge_back.retract(auth.session(request, session_id, write=True), body.seq)
    return Status(200, codec.envelope(event))


@router.post("/sessions/{session_id}/promote", response={200: schemas.Session})
def promote_side(request: HttpRequest, session_id: str) -> Status[Any]:
    """Make a side an ordinary session: its framing and its gate are lifted."""
    side.promote(auth.session(request, session_id, write=True))
    return Status(200, session_json(auth.session(request, session_id)))


def _start_merge(request: HttpRequest, session_id: str, body: schemas.NewMerge) -> dict[str, str]:
    session = auth.session(request, session_id, write=True)
    named = None if body.sides is None else [auth.session(request, one, write=True) for one in body.sides]
    sides = [auth.side_to_merge(request, one.pk) for one in _selected(session, named)]
    started = merge_back.merge_selected(sides, text=body.text, steer=body.steer)
    return {"merge": started.pk, "parent": started.parent_id}


def _selected(session: Session, named: list[Session] | None) -> list[Session]:
    """The sides that a note shall be out of: `session` is one of them, unless it is their parent."""
    if named is None:
        return [session]
    return named if all(one.parent_id == session.pk for one in named) else [session, *named]


async def _merged(begun: dict[str, str]) -> Status[Any]:
    return await result_of(begun["parent"], partial(_fate, begun["merge"])) or Status(202, {"merge": begun["merge"]})


def _fate(merge_id: str) -> Status[Any] | None:
    """The answer about a merge; None while its note is being written."""
    row = Merge.objects.select_related("injection").get(pk=merge_id)
    match row.public_state:
        case "drafting":
            return None
        case "pending":
            return Status(202, {"merge": row.pk})
        case "delivered" | "retracted":
            return Status(200, _note(row))
    error = row.error or {"code": row.public_state, "message": f"this merge was {row.public_state}"}
    raise SidechatError(error["message"], error["code"])


def _note(row: Merge) -> dict[str, Any]:
    where = {"merge": row.pk, "session": row.parent_id, "seq": row.seq}
    return {**where, "truncated": row.truncated, "edited": row.edited}


def _ask_for_draft(request: HttpRequest, session_id: str) -> None:
    merge_back.handback(auth.session(request, session_id, write=True))


async def _draft_of(session_id: str, begun: None) -> Status[Any]:
    return await result_of(session_id, partial(_draft, session_id)) or Status(202, {"merge": None})


def _draft(session_id: str) -> Status[Any] | None:
    """The answer with the side's draft; None while it is being written."""
    asked = Session.objects.get(pk=session_id, deleted_at=None)
    draft = merge_back.drafted(asked)
    if draft is None:
        return None
    shown = merge_back.proposal(asked, draft)
    return Status(200, {"text": shown.text, "truncated": shown.truncated, "throughSeq": draft.through_seq})
