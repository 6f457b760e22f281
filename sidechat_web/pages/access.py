"""Who may see what: one function fetches and authorises. Absent, deleted and foreign are the same 404."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django_htmx.middleware import HtmxDetails

from sidechat_web.core.errors import SidechatError
from sidechat_web.storage import access
from sidechat_web.storage.models import Session


class PageRequest(HttpRequest):
    """A request as the middleware leaves it for a page: signed in, and htmx's headers read."""

    user: User
    htmx: HtmxDetails


def session_or_404(request: HttpRequest, session_id: str, *, write: bool = False) -> Session:
    """One session; 403 for one that is shared with the user, and not for this."""
    return _allowed(request, session_id, partial(access.session_for, write=write))


def own_session_or_404(request: HttpRequest, session_id: str) -> Session:
    """A session of the user's own: what only an owner does."""
    return _allowed(request, session_id, access.own_session_for)


def side_to_merge_or_404(request: HttpRequest, session_id: str) -> Session:
    """A session whose note the user may put into its parent."""
    return _allowed(request, session_id, access.side_to_merge)


def side_to_renew_or_404(request: HttpRequest, session_id: str) -> Session:
    """A side whose parent the user may read, too."""
    return _allowed(request, session_id, access.side_to_renew)


def _allowed(request: HttpRequest, session_id: str, fetch: Callable[[User, str], Session]) -> Session:
    assert request.user.is_authenticated
    try:
        return fetch(request.user, session_id)
    except Session.DoesNotExist:
        raise Http404("There is no such session, or it is not yours.") from None
    except SidechatError as e:
        raise PermissionDenied(e.message) from None


def admin_or_404(request: PageRequest) -> None:
    """Only admins change what concerns everybody."""
    if not request.user.is_superuser:
        raise Http404("There is nothing here.")


def side_of_404(request: HttpRequest, parent: Session, session_id: str) -> Session:
    """The side `session_id` of `parent`; 404 for any other session."""
    side = session_or_404(request, session_id)
    if side.kind != Session.Kind.SIDE or side.parent_id != parent.pk:
        raise Http404("This session has no such side.")
    return side
