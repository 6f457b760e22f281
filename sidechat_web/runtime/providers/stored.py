"""Providers that were added in Settings: rows, with keys that are written and never shown again.

The rows are few and are read whenever they are asked for, so that every process knows a change at once; a key is
decrypted once. The database is read here: call it from synchronous code.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import Max

from sidechat_web.core.errors import SidechatError
from sidechat_web.storage import secrets
from sidechat_web.storage.models import StoredProvider

from .provider import ANTHROPIC, LOCAL, Protocol, Provider

MAX_KEY_CHARS: Final = 4000
NO_KEY: Final = "none"  # the SDKs insist on one
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_KEY: Final = re.compile(r"[!-~]*")
_logger = logging.getLogger(__name__)


class BadProvider(SidechatError):
    """A provider that cannot be stored as it was given; the message says what was expected."""

    code = "bad_provider"


def rows() -> list[StoredProvider]:
    """All of them, also those that are switched off, in the order in which a default is looked for."""
    return list(StoredProvider.objects.order_by("position", "name"))


def configured() -> Iterator[Provider]:
    """Those that are switched on and whose key can be read."""
    for row in rows():
        if row.enabled:
            try:
                yield _provider(row)
            except secrets.SecretUnreadable:
                _logger.warning("the provider %r is left out: its key cannot be read; enter it again", row.name)


def is_readable(row: StoredProvider) -> bool:
    """Whether this process can read the key."""
    try:
        _key(bytes(row.key))
    except secrets.SecretUnreadable:
        return False
    return True


@transaction.atomic
def add(name: str, key: str = "", **fields: Any) -> StoredProvider:
    """A new provider. Raises BadProvider."""
    if not _NAME.fullmatch(name):
        raise BadProvider("a name has up to 40 small letters, digits and hyphens, such as my-server")
    if name == LOCAL:
        raise BadProvider(f"{name!r} is the embedded model; choose another name")
    if StoredProvider.objects.filter(name=name).exists():
        raise BadProvider(f"there is a provider {name!r} already")
    last = StoredProvider.objects.aggregate(last=Max("position"))["last"] or 0
    row = StoredProvider(name=name, position=last + 1)
    _write(row, key, fields)
    row.save(force_insert=True)
    return row


@transaction.atomic
def change(name: str, key: str | None = None, **fields: Any) -> StoredProvider:
    """Change what is given; without a `key` the present one stays. Raises BadProvider and DoesNotExist."""
    row = StoredProvider.objects.select_for_update().get(name=name)
    server = _server(row.base_url)
    _write(row, key, fields)
    if key is None and row.key and _server(row.base_url) != server:
        raise BadProvider("enter the key again: it was given for another server")
    row.save()
    return row


def remove(name: str) -> None:
    """Forget the provider and its key. Sessions that named it stay, and ask for another model. Raises DoesNotExist."""
    StoredProvider.objects.get(name=name).delete()


def _write(row: StoredProvider, key: str | None, fields: dict[str, Any]) -> None:
    for field, value in fields.items():
        setattr(row, field, value)
    row.label = row.label or row.name
    row.base_url = _address(row)
    if key is not None:
        if not _KEY.fullmatch(key) or len(key) > MAX_KEY_CHARS:
            raise BadProvider("a key has letters, digits and signs only, without spaces")
        row.key = secrets.encrypt(key) if key else b""


def _address(row: StoredProvider) -> str:
    try:
        parts = urlsplit(row.base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadProvider("an address looks like https://example.org/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadProvider("an address has neither a password nor a query; the key has a field of its own")
    address = row.base_url.rstrip("/")
    return address.removesuffix("/v1") if row.protocol == ANTHROPIC else address


def _server(address: str) -> tuple[str, str]:
    return urlsplit(address)[:2]


def _provider(row: StoredProvider) -> Provider:
    protocol = cast(Protocol, row.protocol)
    return Provider(row.name, row.label, row.base_url, _key(bytes(row.key)) or NO_KEY, row.default_model, protocol)


@lru_cache(maxsize=64)
def _key(secret: bytes) -> str:
    return secrets.decrypt(secret) if secret else ""
