"""Opening, renewing and promoting a side; the gate that keeps it from acting; the lift of an ordinary fork."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from sidechat_web.core import boundary
from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError, TurnOpen
from sidechat_web.core.events import Draft
from sidechat_web.runtime import commands, headers, sharing
from sidechat_web.runtime.providers import catalog
from sidechat_web.runtime.quotes import Quote
from sidechat_web.runtime.tools.gates import Allow, Call, Deny, Verdict
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Session

from . import carried, frame
from .knowledge import apart, first_cached_share, knows, would_know

__all__ = ["first_cached_share", "is_advisor", "knows", "open_side", "promote", "renew", "sides_from", "would_know"]

_CONTEXT = (ev.CONTEXT_MESSAGE,)  # an imported log, too, has our messages under this type


@transaction.atomic
def open_side(
    parent: Session,
    *,
    owner: AbstractBaseUser | None = None,
    at_seq: int | None = None,
    title: str = "",
    model: str = "",
    text: str | None = None,
    quotes: Sequence[Quote] = (),
) -> Session:
    """A side session from `parent`'s stable prefix, or from the boundary at the message `at_seq`.

    Its first own event is the advisor frame; `text` with `quotes` is its first message, in the same transaction.
    Its `owner` is whoever asks; the owner of the parent, who is the owner by default, may always read and write it.
    """
    parent = log.lock(parent.pk)
    side = _branch(parent, commands.boundary_of(parent, at_seq), [], title, model, owner)
    if text is not None or quotes:
        commands.say(side, text or "", quotes=quotes)
    return side


@transaction.atomic
def renew(
    side: Session,
    *,
    owner: AbstractBaseUser | None = None,
    title: str = "",
    model: str = "",
    text: str | None = None,
    quotes: Sequence[Quote] = (),
) -> Session:
    """A new side at the parent's present boundary, which carries what `side` said as one quoted message.

    It follows the advisor frame. Title and model are the old side's where none is named; the old side stays
    as it is. Raises SidechatError `not_a_side`, `parent_gone`, `turn_open`, and `nothing_new` where the
    parent's history has not moved on.
    """
    parent = _living_parent(side)
    side = log.lock(side.pk)
    if not is_advisor(side):
        raise SidechatError("only a side session can be renewed, and this one was promoted", "not_a_side")
    if side.open_turn is not None:
        raise TurnOpen("the side is answering; renew it when the turn has ended")
    cut = boundary.default(parent.head)
    if not _moved_on(side, parent, cut):
        raise SidechatError("main has not moved on since this side was opened", "nothing_new")
    model = model or _model_of_its_own(side, parent)
    renewed = _branch(parent, cut, _carry(side), title or side.title, model, owner or side.owner)
    if text is not None or quotes:
        commands.say(renewed, text or "", quotes=quotes)
    return renewed


@transaction.atomic
def promote(side: Session) -> None:
    """Make a side an ordinary session: one more message lifts the framing, and with it the gate."""
    side = log.lock(side.pk)
    if not is_advisor(side):
        raise SidechatError("this session is not a side session, or was promoted already", "not_a_side")
    if side.open_turn is not None:
        raise TurnOpen("the side is answering; promote it when the turn has ended")
    log.append_locked(side, [frame.message(frame.PROMOTION, frame.PROMOTION_TEXT)])
    side.settings["promoted"] = True
    side.save(update_fields=["settings"])
    commands.ring_after_commit(side.pk, "row")


def is_advisor(session: Session) -> bool:
    """Whether the session's own events hold an advisor frame and no later promotion."""
    return frame.framed(reading.events(session, after=session.own_from - 1, types=_CONTEXT))


def sides_from(parent: Session) -> dict[int, list[Session]]:
    """The living sides of `parent` by the boundary at which they left (a prefix length), oldest first."""
    rows = Session.objects.filter(parent=parent, kind=Session.Kind.SIDE, deleted_at=None)
    found: dict[int, list[Session]] = {}
    for side in rows.select_related("parent").order_by("created_at", "id"):
        found.setdefault(side.own_from, []).append(side)
    return found


def gate(call: Call) -> Verdict:
    """In a side only tools run that the host knows to be read-only."""
    session = Session.objects.get(pk=call.session.pk)
    if not is_advisor(session) or (call.tool is not None and call.tool.read_only):
        return Allow()
    return Deny(
        f"This is a side session: it is a read-only advisor, so {call.name!r} was not run. Nothing was changed. "
        "The main session can do it, or the user can promote this side."
    )


def lift_of_fork(parent: Session, cut: int) -> list[Draft]:
    """What an ordinary fork of a side starts with: a message that lifts the framing it inherits."""
    if cut and frame.framed(reading.events(parent, stop=cut, types=_CONTEXT)):
        return [frame.message(frame.LIFT, frame.LIFT_TEXT)]
    return []


def _branch(
    parent: Session, cut: int, carried_on: list[Draft], title: str, model: str, owner: AbstractBaseUser | None
) -> Session:
    """A side of the locked `parent`: the advisor frame first, then what is carried on."""
    drafts = [frame.message(frame.ADVISOR, frame.ADVISOR_TEXT), *carried_on]
    side = commands.branch(parent, cut, kind=Session.Kind.SIDE, drafts=drafts, owner=owner, title=title, model=model)
    sharing.with_owner_of(parent, side)
    if settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT:
        side.settings["header"] = {**side.settings["header"], "system": settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT}
    side.settings["openTurn"] = parent.open_turn
    side.save(update_fields=["settings"])
    return side


def _living_parent(side: Session) -> Session:
    """The locked parent. Raises SidechatError `not_a_side` or `parent_gone`."""
    if side.kind != Session.Kind.SIDE:
        raise SidechatError("only a side session can be renewed", "not_a_side")
    try:
        return log.lock(str(side.parent_id))
    except Session.DoesNotExist:
        raise SidechatError("the parent session was deleted", "parent_gone") from None


def _moved_on(side: Session, parent: Session, cut: int) -> bool:
    """Whether the parent's stable prefix holds something that a model sees and the side did not inherit."""
    since = reading.events(parent, after=side.own_from - 1, stop=cut)
    return any(event.on_surface for event in since)


def _carry(side: Session) -> list[Draft]:
    surface = reading.surface(side)
    said = carried.compose(side.title, side.log_id, (surface.event(s) for s in surface.nodes if s >= side.own_from))
    if said is None:
        return []
    more = {"session": side.log_id, "throughSeq": side.next_seq - 1, "truncated": said.truncated}
    return [frame.message(frame.CARRIED, said.text, **more)]


def _model_of_its_own(side: Session, parent: Session) -> str:
    """The side's model where it is not the one that it inherited."""
    return catalog.model_id(headers.of(side)["config"]) if apart(side, parent)["own_model"] else ""
