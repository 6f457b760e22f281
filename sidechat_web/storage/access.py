"""Rows that a user may see. Absent, deleted and foreign are one answer: DoesNotExist.

A session is its owner's. A share gives another user the right to read it, or also to write to it, and covers
the sides below it. Whoever opens a side owns it, and the owner of its parent has a share of it from the start.
Only an owner deletes and shares.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from sidechat_web.core.errors import SidechatError

from .models import Session, Share

# What was shared with a user, and the sides below it.
_SHARED = """
    WITH RECURSIVE shared(id) AS (
        SELECT session_id FROM storage_share WHERE user_id = %s AND {which}
        UNION
        SELECT side.id FROM storage_session side JOIN shared ON side.parent_id = shared.id WHERE side.kind = 'side'
    ) SELECT id FROM shared"""
_TO_READ = _SHARED.format(which="ended_at IS NULL")
_TO_WRITE = _SHARED.format(which="ended_at IS NULL AND write")
_EVER = _SHARED.format(which="1 = 1")


class Forbidden(SidechatError):
    """The user may see the session, and not do this. Codes: `shared_read_only`, `not_owner`, `parent_forbidden`."""


def visible(user: AbstractBaseUser, *, write: bool = False) -> QuerySet[Session]:
    """The living sessions that `user` may read (or write)."""
    return _within(user, _TO_WRITE if write else _TO_READ).filter(deleted_at=None)


def lost(user: AbstractBaseUser) -> QuerySet[Session]:
    """The sessions that `user` could read once and cannot any more: deleted, or no longer shared."""
    return _within(user, _EVER).exclude(pk__in=visible(user).values("pk"))


def session_for(user: AbstractBaseUser, session_id: str, *, write: bool = False) -> Session:
    """One session that `user` may read. Raises Session.DoesNotExist, or Forbidden where `write` is asked in vain.

    `may_write` of the row says whether they may, `hidden` of its parent whether they may not see that.
    """
    session = visible(user).select_related("parent").get(pk=session_id)
    session.may_write = _may(user, session, write=True)
    if session.parent is not None:
        session.parent.hidden = not _may(user, session.parent, write=False)
        session.parent.may_write = not session.parent.hidden and _may(user, session.parent, write=True)
    if write and not session.may_write:
        raise Forbidden("this session is shared with you for reading", "shared_read_only")
    return session


def own_session_for(user: AbstractBaseUser, session_id: str) -> Session:
    """One session of `user`'s own. Raises Session.DoesNotExist, or Forbidden for one that is shared with them."""
    session = session_for(user, session_id)
    if session.owner_id != user.pk:
        raise Forbidden("only the owner of a session can do this", "not_owner")
    return session


def side_to_merge(user: AbstractBaseUser, session_id: str) -> Session:
    """A session that `user` may write to, and whose living parent, too. Raises as `session_for` does."""
    side = session_for(user, session_id, write=True)
    if side.parent is not None and side.parent.deleted_at is None and not side.parent.may_write:
        raise Forbidden("you may not write to the parent of this side; its note can be copied", "parent_forbidden")
    return side


def side_to_renew(user: AbstractBaseUser, session_id: str) -> Session:
    """A session that `user` may read, and whose living parent, too. Raises as `session_for` does."""
    side = session_for(user, session_id)
    if side.parent is not None and side.parent.deleted_at is None and side.parent.hidden:
        raise Forbidden("the parent of this side is not shared with you", "parent_forbidden")
    return side


def _within(user: AbstractBaseUser, shared: str) -> QuerySet[Session]:
    """The user's own sessions and those that `shared` selects. Looks first whether anything is shared at all."""
    mine = Q(owner_id=user.pk)
    if Share.objects.filter(user_id=user.pk).exists():
        mine |= Q(pk__in=RawSQL(shared, [user.pk]))
    return Session.objects.filter(mine)


def _may(user: AbstractBaseUser, session: Session, *, write: bool) -> bool:
    return session.owner_id == user.pk or visible(user, write=write).filter(pk=session.pk).exists()
