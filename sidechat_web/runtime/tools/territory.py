"""Where a user's sessions may work: an admin's anywhere, a member's below SIDECHAT_WORKSPACES.

Asked when a session is made, and again before each call: an imported log brings a directory of its own, and a user
may cease to be an admin. A shell is not held by any directory, so members have none.
"""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User

from . import builtin
from .gates import Allow, Call, Deny, Verdict


def is_open_to(owner: AbstractBaseUser, cwd: str) -> bool:
    """Whether sessions of `owner` may work in `cwd`, links resolved."""
    if _is_admin(owner):
        return True
    place = Path(os.path.realpath(cwd))
    return any(place.is_relative_to(os.path.realpath(root)) for root in settings.SIDECHAT_WORKSPACES)


def gate(call: Call) -> Verdict:
    """Deny workspace tools outside the owner's territory, and members the shell."""
    if call.tool not in (*builtin.FILE_TOOLS, builtin.SHELL):
        return Allow()
    owner = User.objects.get(pk=call.session.owner_id)
    if call.tool is builtin.SHELL and not _is_admin(owner):
        return Deny("The shell is for admins' sessions only, so nothing was run.")
    if call.session.cwd is not None and not is_open_to(owner, call.session.cwd):
        return Deny("This session's directory is not one in which its owner may work, so nothing was done.")
    return Allow()


def _is_admin(owner: AbstractBaseUser) -> bool:
    return bool(getattr(owner, "is_superuser", False))
