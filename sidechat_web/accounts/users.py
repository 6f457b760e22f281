"""Users: the one local user of a loopback start, members, and admins."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

LOCAL_NAME = "local"
MAX_PASSWORD_CHARS = 1000  # hashing a longer one is work for nothing


def local_user() -> User:
    """The local user, made on first use: an admin, without a password that could be guessed."""
    user, made = User.objects.get_or_create(username=LOCAL_NAME)
    if made:
        user.set_unusable_password()
        set_role(user, admin=True)
    return user


def add(name: str, password: str, *, admin: bool = False) -> User:
    """A new user who signs in with a password. Raises ValidationError with what is wrong with name or password."""
    user = User(username=User.normalize_username(name))
    check_name(user)
    check_password(password, user)
    user.set_password(password)
    try:
        with transaction.atomic():
            set_role(user, admin=admin)
    except IntegrityError:
        raise ValidationError("A user with that username already exists.") from None
    return user


def is_first() -> bool:
    """Whether nobody can sign in with a password yet: the first one who can is an admin."""
    return not any(user.has_usable_password() for user in User.objects.filter(is_active=True))


def set_role(user: User, *, admin: bool) -> None:
    user.is_staff = user.is_superuser = admin
    user.save()


def check_name(user: User) -> None:
    """Raises ValidationError. Names that differ only in case are one name, and `local` is taken."""
    user.clean_fields(exclude=["password"])
    taken = User.objects.filter(username__iexact=user.username).exists()
    if taken or user.username.casefold() == LOCAL_NAME:
        raise ValidationError("A user with that username already exists.")


def check_password(password: str, user: User) -> None:
    """Raises ValidationError."""
    if len(password) > MAX_PASSWORD_CHARS:
        raise ValidationError(f"A password has at most {MAX_PASSWORD_CHARS} characters.")
    validate_password(password, user)
