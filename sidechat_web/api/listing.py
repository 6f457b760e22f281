"""The list of sessions: flat, newest activity first, in pages that a cursor continues."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from sidechat_web.core.errors import SidechatError
from sidechat_web.storage import search
from sidechat_web.storage.models import Session

_CURSOR = re.compile(r"(\d{1,16})\.([a-z0-9]{26})")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the next page starts behind it."""

    updated_at: int
    session_id: str

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(f"{self.updated_at}.{self.session_id}".encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises SidechatError `bad_cursor`."""
        try:
            plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            plain = ""
        found = _CURSOR.fullmatch(plain)
        if found is None:
            raise SidechatError("this cursor is none that the API has given", "bad_cursor")
        return cls(int(found[1]), found[2])


def page(
    sessions: QuerySet[Session], *, q: str, archived: bool, limit: int, cursor: Cursor | None
) -> tuple[list[Session], Cursor | None]:
    """At most `limit` of `sessions`, and where the next page starts (None on the last)."""
    found = search.matching(sessions, q).filter(archived=archived)
    rows = with_ancestors(sessions, found).order_by("-updated_at", "-id")
    if cursor is not None:
        older = Q(updated_at__lt=cursor.updated_at)
        rows = rows.filter(older | Q(updated_at=cursor.updated_at, id__lt=cursor.session_id))
    listed = list(rows.select_related("parent")[: limit + 1])
    if len(listed) <= limit:
        return listed, None
    last = listed[limit - 1]
    return listed[:limit], Cursor(last.updated_at, last.pk)


def with_ancestors(sessions: QuerySet[Session], found: QuerySet[Session]) -> QuerySet[Session]:
    """`found`, and each one's parents up to the root, so that a side never stands alone."""
    above: set[str] = set()
    level = sessions.filter(children__in=found).exclude(pk__in=found)
    while ids := set(level.values_list("pk", flat=True)) - above:
        above |= ids
        level = sessions.filter(children__in=ids).exclude(pk__in=found)
    return sessions.filter(Q(pk__in=found) | Q(pk__in=above)) if above else found
