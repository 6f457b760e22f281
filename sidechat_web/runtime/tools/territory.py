"""Where a user's sessions may work: an admin's anywhere, a member's below SIDECHAT_WORKSPACES.

Asked when a session is made, and again before each call: an imported log brings a directory of its own, and a user
may cease to be an admin. A shell is not held by any directory, so members have none.
"""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User

from sidechat_web.core.errors import SidechatError

from . import builtin
from .gates import Allow, Call, Deny, Verdict


def is_open_to(owner: AbstractBaseUser, cwd: str) -> bool:
    """Whether sessions of `owner` may work in `cwd`, links resolved."""
    if _is_admin(owner):
        return True
    place = Path(os.path.realpath(cwd))
    return any(place.is_relative_to(os.path.realpath(root)) for root in settings.SIDECHAT_WORKSPACES)


def has_any(owner: AbstractBaseUser) -> bool:
    """Whether there is any directory in which sessions of `owner` may work."""
    return _is_admin(owner) or bool(settings.SIDECHAT_WORKSPACES)


def workspace(owner: AbstractBaseUser, cwd: str) -> str:
    """The real path of `cwd`. Raises SidechatError `bad_cwd` where no session of the owner's may work there."""
    if not is_open_to(owner, cwd.replace("\0", "")):
        raise SidechatError("you may not work there: the operator says where, in SIDECHAT_WORKSPACES", "bad_cwd")
    if "\0" in cwd or not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise SidechatError("the directory must be the absolute path of one that exists", "bad_cwd")
    place, private = Path(os.path.realpath(cwd)), Path(os.path.realpath(settings.DATA_DIR))
    if place.is_relative_to(private) or private.is_relative_to(place):
        raise SidechatError(
            "Sidechat keeps its own data there: choose a directory beside its data directory", "bad_cwd"
        )
    return str(place)


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
