"""Sharing a session, and the sides below it, with another user. What a share allows is decided by `storage.access`."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from sidechat_web.core.errors import SidechatError
from sidechat_web.storage import log
from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.models import Session, Share

from .commands import ring_after_commit

MAX_SHARES: Final = 200


def shares_of(session: Session) -> QuerySet[Share]:
    """Who else may see `session` through a share of its own, by name. The owner of its parent is not listed."""
    return _explicit(session).filter(ended_at=None).select_related("user").order_by("user__username")


@transaction.atomic
def share(session: Session, username: str, *, write: bool) -> Share:
    """Let `username` read, or read and write, `session` and its sides. Raises SidechatError `no_user`, `too_many`."""
    session = log.lock(session.pk)
    user = User.objects.filter(username=username, is_active=True).exclude(pk=session.owner_id).first()
    if user is None:
        raise SidechatError("there is no other user of this name", "no_user")
    if _explicit(session).filter(ended_at=None).exclude(user=user).count() >= MAX_SHARES:
        raise SidechatError(f"a session is shared with at most {MAX_SHARES} users", "too_many")
    if Share.objects.filter(session=session, user=user, ended_at=None).exclude(pk__in=_explicit(session)).exists():
        raise SidechatError("the owner of the parent has every right to this side already", "no_user")
    wanted = {"write": write, "ended_at": None}
    made, _ = Share.objects.update_or_create(session=session, user=user, defaults=wanted)
    _tell(session)
    return made


@transaction.atomic
def unshare(session: Session, username: str) -> bool:
    """End what `share` began; returns whether there was something to end. Sides that the user opened stay theirs."""
    session = log.lock(session.pk)
    ended = _explicit(session).filter(user__username=username, ended_at=None).update(ended_at=now_ms())
    _tell(session)
    return bool(ended)


def with_owner_of(parent: Session, side: Session) -> None:
    """Give the owner of `parent` a share of someone else's side of it, in the transaction that makes the side."""
    if side.owner_id != parent.owner_id:
        Share.objects.create(session=side, user_id=parent.owner_id, write=True)


def _explicit(session: Session) -> QuerySet[Share]:
    """Shares that someone gave, and may end: not that of the owner of a side's parent."""
    shares, parent = Share.objects.filter(session=session), session.parent
    is_side = session.kind == Session.Kind.SIDE and parent is not None
    return shares.exclude(user_id=parent.owner_id) if is_side and parent else shares


def _tell(session: Session) -> None:
    """Have sockets and sidebars look again, at the session and at everything below it."""
    found, level = [session.pk], [session.pk]
    while level:
        sides = Session.objects.filter(parent__in=level, kind=Session.Kind.SIDE, deleted_at=None)
        level = list(sides.values_list("pk", flat=True))
        found += level
    for session_id in found:
        ring_after_commit(session_id, "access")
