"""`Idempotency-Key`: the same key and request get the same answer, and the work is done once.

The key's row, the work and the kept answer are one transaction: after a crash there are all of them
or none. A refusal changes nothing and keeps nothing: its key may be tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.http import HttpRequest
from ninja import Status

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime.db import in_db
from sidechat_web.storage.models import IdempotencyKey

from .auth import caller

View = TypeVar("View", bound=Callable[..., Any])
HEADER = "Idempotency-Key"
MAX_KEY_CHARS = 255
_UNSETTLED = 0  # the status of work that has started and is not done


def once_per_key(view: Callable[..., Any]) -> Callable[..., Any]:
    """`view`, doing its work once for each key. An async view sees to that itself, with `once_begun`."""
    if iscoroutinefunction(view) or getattr(view, "keys_itself", False):
        return view

    @wraps(view)
    def keyed(request: HttpRequest, **params: Any) -> Any:
        if request.method != "POST":
            return view(request, **params)
        return once(request, lambda: view(request, **params))

    return keyed


def keys_itself(view: View) -> View:
    """Mark a view that calls `once`, because only it can digest its body."""
    view.keys_itself = True  # type: ignore[attr-defined]
    return view


def once(request: HttpRequest, work: Callable[[], Status[Any]], *, body_digest: str | None = None) -> Status[Any]:
    """What `work` answers, or what it answered to this key before.

    Raises SidechatError `idempotency_mismatch` where the key came with another request.
    """
    key = _key(request)
    if key is None:
        return work()
    with transaction.atomic():
        row, fresh = _reserve(request, key, body_digest or _body_digest(request))
        if not fresh:
            return _kept(row)
        result = work()
        row.status, row.body = result.status_code, json.dumps(result.value)
        row.save(update_fields=["status", "body"])
        return result


async def once_begun(
    request: HttpRequest, begin: Callable[[], Any], finish: Callable[[Any], Awaitable[Status[Any]]]
) -> Status[Any]:
    """What `finish` answers about the work that `begin` started durably, once for each key.

    `begin` runs in the key's transaction and returns JSON that names the work. A 200 is kept; until
    then the same key waits for the same work again.
    """
    row, begun = await in_db(_begin, request, begin)
    if row is not None and row.status != _UNSETTLED:
        return _kept(row)
    try:
        result = await finish(begun)
    except SidechatError:
        if row is not None:
            await in_db(_release, row)
        raise
    if row is None or result.status_code != 200:
        return result
    return _kept(await in_db(_settle, row, result))


def _begin(request: HttpRequest, begin: Callable[[], Any]) -> tuple[IdempotencyKey | None, Any]:
    key = _key(request)
    with transaction.atomic():
        if key is None:
            return None, begin()
        row, fresh = _reserve(request, key, _body_digest(request))
        if fresh:
            row.body = json.dumps(begin())
            row.save(update_fields=["body"])
        return row, json.loads(row.body)


def _settle(row: IdempotencyKey, result: Status[Any]) -> IdempotencyKey:
    """The row with the answer that came first, this one or another call's."""
    unsettled = IdempotencyKey.objects.filter(pk=row.pk, status=_UNSETTLED)
    unsettled.update(status=result.status_code, body=json.dumps(result.value))
    row.refresh_from_db()
    return row


def _release(row: IdempotencyKey) -> None:
    """Forget a key whose work came to nothing, so that it may be tried again."""
    IdempotencyKey.objects.filter(pk=row.pk, status=_UNSETTLED).delete()


def _kept(row: IdempotencyKey) -> Status[Any]:
    return Status(row.status, json.loads(row.body))


def _reserve(request: HttpRequest, key: str, body_digest: str) -> tuple[IdempotencyKey, bool]:
    """The key's row and whether it is new. Waits while another transaction works on the same key."""
    owner = caller(request)
    call = f"{request.method} {request.get_full_path()}\n{body_digest}"
    digest = hashlib.sha256(call.encode()).hexdigest()
    try:
        with transaction.atomic():
            row = IdempotencyKey.objects.create(owner=owner, key=key, digest=digest, status=_UNSETTLED)
            return row, True
    except IntegrityError:
        row = IdempotencyKey.objects.get(owner=owner, key=key)
    if row.digest != digest:
        raise SidechatError(f"this {HEADER} came with another request before", "idempotency_mismatch")
    return row, False


def _key(request: HttpRequest) -> str | None:
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not (0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()):
        raise SidechatError(f"{HEADER} must be 1 to {MAX_KEY_CHARS} printable ASCII characters", "bad_idempotency_key")
    return key


def _body_digest(request: HttpRequest) -> str:
    return hashlib.sha256(request.body).hexdigest()
