"""Too many wrong passwords from one place, or for one name, close the door for a while.

Counted in the database, so that it holds for all processes and through restarts.
"""

from __future__ import annotations

from typing import Final

from django.db.models import Count, Q

from sidechat_web.storage.ids import now_ms

from .models import SignInFailure

WINDOW_MS: Final = 15 * 60_000
MOST_HERE: Final = 10  # of one name, from one address
MOST_FROM_ADDRESS: Final = 50
MOST_FOR_NAME: Final = 100  # from anywhere: so many that nobody locks a user out by the way


def wait_seconds(name: str, address: str) -> int:
    """How long the door stays closed for `name` at `address`; 0 = it is open."""
    recent = SignInFailure.objects.filter(at__gt=now_ms() - WINDOW_MS)
    here, there = Q(name=_folded(name)), Q(address=address)
    counts = recent.aggregate(
        here=Count("pk", filter=here & there), there=Count("pk", filter=there), name=Count("pk", filter=here)
    )
    closed = counts["here"] >= MOST_HERE or counts["there"] >= MOST_FROM_ADDRESS or counts["name"] >= MOST_FOR_NAME
    if not closed:
        return 0
    first = recent.filter(here | there).order_by("at").values_list("at", flat=True).first() or 0
    return max(1, (first + WINDOW_MS - now_ms()) // 1000)


def failed(name: str, address: str) -> None:
    """Remember a wrong name or password; forget those that no longer count."""
    SignInFailure.objects.filter(at__lt=now_ms() - WINDOW_MS).delete()
    SignInFailure.objects.create(name=_folded(name), address=address)


def passed(name: str, address: str) -> None:
    """The right password: what was mistyped before no longer counts here."""
    SignInFailure.objects.filter(name=_folded(name), address=address).delete()


def _folded(name: str) -> str:
    return name.casefold().replace("\0", "")[:150]
