"""A form that is sent twice acts once."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from sidechat_web.storage.models import IdempotencyKey


@transaction.atomic
def once(owner: User, key: str, act: Callable[[], str]) -> str:
    """The result of `act`, which runs the first time that `key` is seen. Without a key it always runs.

    The key and what `act` writes commit together; of two at the same time one waits for the other.
    """
    if not key:
        return act()
    name = f"page:{key}"[:255]
    try:
        with transaction.atomic():
            row = IdempotencyKey.objects.create(owner=owner, key=name, digest="")
    except IntegrityError:
        return IdempotencyKey.objects.get(owner=owner, key=name).body
    row.body = act()
    row.save(update_fields=["body"])
    return row.body
