"""Quotes as a caller names them, resolved to sessions that the caller may read."""

from __future__ import annotations

from django.http import HttpRequest

from sidechat_web.runtime.quotes import Quote
from sidechat_web.storage.models import Session

from . import auth, schemas


def resolve(request: HttpRequest, quotes: list[schemas.Quote] | None, read: Session) -> list[Quote]:
    """The quotes; those that name no session are from `read`. Raises Session.DoesNotExist."""
    return [
        Quote(auth.session(request, q.session) if q.session else read, q.seq, q.text, q.comment or "")
        for q in quotes or ()
    ]
