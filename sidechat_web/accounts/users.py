"""The one local user of a loopback start."""

from __future__ import annotations

from django.contrib.auth.models import User

LOCAL_NAME = "local"


def local_user() -> User:
    """The local user, made on first use, without a password that could be guessed."""
    user, made = User.objects.get_or_create(username=LOCAL_NAME)
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user
