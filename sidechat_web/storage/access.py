"""Rows that a user may see. Absent, deleted and foreign are one answer: DoesNotExist."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet

from .models import Session


def visible(user: AbstractBaseUser) -> QuerySet[Session]:
    """The living sessions that `user` may read."""
    return Session.objects.filter(owner_id=user.pk, deleted_at=None)


def session_for(user: AbstractBaseUser, session_id: str, *, write: bool = False) -> Session:
    """One session that `user` may read (or write). Raises Session.DoesNotExist otherwise."""
    return visible(user).select_related("parent").get(pk=session_id)
