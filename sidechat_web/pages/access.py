"""Who may see what: one function fetches and authorises. Absent, deleted and foreign are the same 404."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest
from django_htmx.middleware import HtmxDetails

from sidechat_web.storage.access import session_for
from sidechat_web.storage.models import Session


class PageRequest(HttpRequest):
    """A request as the middleware leaves it for a page: signed in, and htmx's headers read."""

    user: User
    htmx: HtmxDetails


def session_or_404(request: HttpRequest, session_id: str, *, write: bool = False) -> Session:
    assert request.user.is_authenticated
    try:
        return session_for(request.user, session_id, write=write)
    except Session.DoesNotExist:
        raise Http404("There is no such session, or it is not yours.") from None


def side_of_404(request: HttpRequest, parent: Session, session_id: str) -> Session:
    """The side `session_id` of `parent`; 404 for any other session."""
    side = session_or_404(request, session_id)
    if side.kind != Session.Kind.SIDE or side.parent_id != parent.pk:
        raise Http404("This session has no such side.")
    return side
