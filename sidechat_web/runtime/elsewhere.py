"""What other processes stored of other programs' sessions, noticed where no bell from them can be heard."""

from __future__ import annotations

from typing import Final

from django.db import connection
from django.db.models import Max

from sidechat_web.storage.models import Event

# Rows of transactions that overlap are committed in another order than they are numbered in.
_OVERLAP: Final = 5_000 if connection.vendor == "postgresql" else 0


class Elsewhere:
    """Looks at rows by their number: what an import or a mirror of another process added."""

    def __init__(self) -> None:
        self._floor: int | None = None
        self._told: dict[str, int] = {}

    def grown(self) -> list[str]:
        """The imported sessions that grew since the last call; none at the first."""
        last = Event.objects.aggregate(last=Max("pk"))["last"] or 0
        if self._floor is None:
            self._floor = last
            return []
        rows = Event.objects.filter(pk__gt=self._floor - _OVERLAP, session__imported=True)
        newest = dict(rows.values_list("session_id").annotate(last=Max("pk")))
        grown = [pk for pk, row in newest.items() if row > self._told.get(pk, 0)]
        self._told, self._floor = newest, last
        return grown
