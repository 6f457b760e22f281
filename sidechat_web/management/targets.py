"""What the words on a command line name."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db.models import Q

from sidechat_web.accounts.users import local_user
from sidechat_web.storage.models import Session


def owner(name: str | None) -> User:
    """The user of that name, or the local one."""
    if not name:
        return local_user()
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"no user {name!r}")
    return user


def session(name: str) -> Session:
    """The one living session with that id or log id."""
    found = list(Session.objects.filter(Q(pk=name) | Q(log_id=name), deleted_at=None)[:2])
    if len(found) != 1:
        raise CommandError(f"{'no session' if not found else 'more than one session has the log id'} {name!r}")
    return found[0]
