"""Secrets at rest: text that only a process with SIDECHAT_SECRET_KEY can read back.

Encrypted with a key derived from the present secret key; what was encrypted under one of the fallback keys
(SIDECHAT_SECRET_KEY_FALLBACKS) is still read, until `rotate_all` has encrypted it anew.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.conf import settings
from django.db import models, transaction

from sidechat_web.core.errors import SidechatError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

_PURPOSE: Final = b"sidechat: secrets at rest, 1"


class SecretUnreadable(SidechatError):
    """Encrypted under a key that this process does not have, or damaged."""

    code = "secret_unreadable"


class SecretField(models.BinaryField):  # type: ignore[type-arg]
    """A column of what `encrypt` returned; `rotate_all` finds these columns by their type. Never decrypts by itself."""


def encrypt(text: str) -> bytes:
    return _keys().encrypt(text.encode("utf-8", "surrogatepass"))


def decrypt(secret: bytes | memoryview) -> str:
    """What `encrypt` was given. Raises SecretUnreadable."""
    from cryptography.fernet import InvalidToken

    try:
        return _keys().decrypt(bytes(secret)).decode("utf-8", "surrogatepass")
    except InvalidToken:
        raise SecretUnreadable("a stored secret cannot be read with this SIDECHAT_SECRET_KEY; enter it again") from None


def rotate_all() -> int:
    """Encrypt every stored secret under the present key, all or nothing; returns how many. Raises SecretUnreadable."""
    with transaction.atomic():
        return sum(_rotate(row, field) for row, field in _stored())


def _stored() -> Iterator[tuple[models.Model, str]]:
    for model in apps.get_models():
        for field in model._meta.get_fields():
            if isinstance(field, SecretField):
                for row in model._default_manager.select_for_update().only(field.name).iterator():
                    yield row, field.name


def _rotate(row: Any, field: str) -> int:
    secret = getattr(row, field)
    if not secret:
        return 0
    setattr(row, field, encrypt(decrypt(secret)))
    row.save(update_fields=[field])
    return 1


def _keys() -> MultiFernet:
    from cryptography.fernet import MultiFernet  # megabytes that a process without stored secrets never needs

    return MultiFernet([_key(secret_key) for secret_key in [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]])


def _key(secret_key: str) -> Fernet:
    from cryptography.fernet import Fernet

    return Fernet(base64.urlsafe_b64encode(hmac.digest(secret_key.encode(), _PURPOSE, "sha256")))
