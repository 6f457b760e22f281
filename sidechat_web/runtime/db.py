"""The one crossing between the event loop and the synchronous store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from channels.db import database_sync_to_async

T = TypeVar("T")


async def in_db(use_case: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run one sync use case in the process's database thread; calls run in the order in which they were made."""
    result: T = await database_sync_to_async(use_case)(*args, **kwargs)
    return result
