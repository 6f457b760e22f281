"""Notes on their way from a side to its parent, as either end shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sidechat_web.render import links, words
from sidechat_web.render.items import Link
from sidechat_web.runtime.sidechat import merge_back
from sidechat_web.storage.models import Session

from .replies import sentence

UNDER_WAY: Final = ("drafting", "pending")


@dataclass(frozen=True, slots=True)
class Pending:
    """A merge that is not in the parent yet, or that failed."""

    id: str
    side: Link
    said: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Merged:
    """A note that stands in the parent."""

    title: str
    url: str
    at: datetime
    retracted: bool


@dataclass(frozen=True, slots=True)
class MergeBar:
    """The foot of a side: what became of its notes, and whether one can be merged now."""

    merged: list[Merged]
    on_its_way: bool
    allowed: bool
    why_not: str
    copy_instead: bool
    parent_running: bool


def pending(session: Session) -> list[Pending]:
    """The merges from and into `session` that are under way; at a side also its last one, if it failed."""
    merges = merge_back.merges_of(session)
    shown = [m for m in merges if m["state"] in UNDER_WAY]
    last_own = next((m for m in reversed(merges) if m["side"] == session.pk), None)
    if last_own is not None and last_own["state"] == "failed":
        shown.append(last_own)
    sides = Session.objects.filter(pk__in={m["side"] for m in shown}).select_related("parent")
    names = {one.pk: links.link(one) for one in sides}
    return [Pending(m["id"], names[m["side"]], _said(m, session), m["state"] == "failed") for m in shown]


def _said(merge: dict[str, Any], session: Session) -> str:
    if merge["state"] == "failed":
        return f"The note did not reach the parent: {merge.get('error', {}).get('message', 'no reason was given')}."
    if merge["state"] == "drafting":
        return "The side is writing its note."
    if merge["parent"] == session.pk:
        return "Its note waits for this turn to end."
    return "The note waits until main’s turn ends."


def merge_bar(session: Session) -> MergeBar:
    code, why = merge_back.why_not(session) or ("", "")
    parent = session.parent
    on_its_way = any(m["state"] in UNDER_WAY and m["side"] == session.pk for m in merge_back.merges_of(session))
    return MergeBar(
        merged=[_merged(session, parent, note) for note in merge_back.merged_into(session)]
        if parent is not None
        else [],
        on_its_way=on_its_way,
        allowed=not code,
        why_not="" if on_its_way else sentence(why),
        copy_instead=code in ("parent_gone", "parent_read_only"),
        parent_running=parent is not None and parent.open_turn is not None,
    )


def _merged(session: Session, parent: Session, note: dict[str, Any]) -> Merged:
    """Its address keeps the side open beside the card."""
    beside = session.pk if links.beside(session) else ""
    address = f"{links.page(parent.pk, side=beside)}#{parent.pk}-e{note['seq']}"
    return Merged(links.name(parent), address, words.moment(note["time"]), note["retracted"])
