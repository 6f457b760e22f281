"""Where a session is shown: its name and address, from its row alone."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from sidechat_web.storage.models import Session

from .items import Link
from .text import line


def name(session: Session) -> str:
    """The session's title, or what it is where it has none yet."""
    if title := line(session.title, 120):
        return title
    return "New side" if session.kind == Session.Kind.SIDE else "New session"


def url(session: Session) -> str:
    """A side opens in the panel beside its parent, everything else in the main column.

    Reads `session.parent`: select it along with the row.
    """
    if session.deleted_at is not None:
        return ""
    if beside(session):
        return page(str(session.parent_id), side=session.pk)
    return page(session.pk)


def message(session: Session, seq: int) -> str:
    """The address of one message of a living session. Reads `session.parent` as `url` does."""
    return f"{url(session)}#{session.pk}-e{seq}"


def beside(session: Session) -> bool:
    """Whether the session is shown beside a parent: a side that was not promoted and whose parent can be seen."""
    promoted = bool(session.settings.get("promoted"))
    return session.kind == Session.Kind.SIDE and not promoted and has_parent(session)


def has_parent(session: Session) -> bool:
    return session.parent is not None and session.parent.deleted_at is None and not session.parent.hidden


def link(session: Session) -> Link:
    return Link(name(session), url(session), session.pk)


def page(session_id: str, **query: object) -> str:
    """The address of a session's page, with the given parts of its query."""
    given = {key: value for key, value in query.items() if value not in (None, "")}
    return reverse("session", args=[session_id]) + (f"?{urlencode(given)}" if given else "")
