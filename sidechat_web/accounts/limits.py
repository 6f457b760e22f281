"""How often a user may have something done: a bucket of calls each, filled evenly, in this process.

Not in local mode, where the only user is whoever owns the machine.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from sidechat_web.core.errors import SidechatError

MOST_USERS: Final = 10_000
IMPORT: Final = 10  # calls that one counts as


class TooMany(SidechatError):
    """The bucket is empty; `seconds` is how long until it holds enough."""

    code = "too_many_requests"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many requests; try again in {seconds} s")
        self.seconds = seconds


@dataclass(slots=True)
class Bucket:
    """What is left of a minute's calls at the time `at` (seconds, monotonic)."""

    left: float
    at: float

    def take(self, calls: int, most: int, now: float) -> float:
        """Take `calls` out; returns 0, or the seconds until they are there and takes nothing."""
        self.left, self.at = min(most, self.left + (now - self.at) * most / 60), now
        wanted = min(calls, most)
        if self.left < wanted:
            return (wanted - self.left) * 60 / most
        self.left -= wanted
        return 0


_lock = threading.Lock()
_buckets: OrderedDict[int, Bucket] = OrderedDict()


def spend(user_id: int, calls: int = 1) -> None:
    """Count `calls` against the user. Raises TooMany."""
    most = settings.SIDECHAT_CALLS_PER_MINUTE
    if not most or settings.SIDECHAT_LOCAL_MODE:
        return
    now = time.monotonic()
    with _lock:
        bucket = _buckets.setdefault(user_id, Bucket(most, now))
        _buckets.move_to_end(user_id)
        if len(_buckets) > MOST_USERS:
            _buckets.popitem(last=False)
        wait = bucket.take(calls, most, now)
    if wait:
        raise TooMany(int(wait) + 1)


def forget() -> None:
    """Fill every bucket."""
    with _lock:
        _buckets.clear()
