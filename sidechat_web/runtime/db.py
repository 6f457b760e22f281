"""The one crossing between the event loop and the synchronous store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync
from channels.db import database_sync_to_async
from django.db import connection

T = TypeVar("T")


async def in_db(use_case: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run one sync use case in the process's database thread; calls run in the order in which they were made.

    On SQLite that thread keeps its connection: to open one costs as much as an append, and closing the last one
    writes all of the WAL back. A request has a thread of its own, which ends with it.
    """
    keep = connection.vendor == "sqlite" and SyncToAsync.thread_sensitive_context.get(None) is None
    run = partial(_keeping, use_case) if keep else use_case
    result: T = await database_sync_to_async(run)(*args, **kwargs)
    return result


def _keeping(use_case: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run it, and have the connection outlive the call."""
    try:
        return use_case(*args, **kwargs)
    finally:
        connection.close_at = None
