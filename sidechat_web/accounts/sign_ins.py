"""The browsers that are signed in, so that their user can see and end them."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.contrib.sessions.models import Session as BrowserSession
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from sidechat_web.storage.ids import now_ms

from .addresses import client_address
from .models import SignIn
from .session_store import hashed

SEEN_EVERY_MS: Final = 60_000
_seen: dict[str, int] = {}  # session key → when this process noted it last


def of(user: User) -> QuerySet[SignIn]:
    """The user's live sign-ins, last seen first."""
    living = BrowserSession.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    return SignIn.objects.filter(user=user, session_key__in=living).order_by("-seen_at")


def end(user: User, sign_in_id: int) -> bool:
    """Sign one browser out; returns whether `user` had such a sign-in."""
    found = of(user).filter(pk=sign_in_id).first()
    if found is not None:
        _end(found)
    return found is not None


def end_others(user: User, session_key: str | None) -> int:
    """Sign the user out everywhere but in the browser with `session_key`; returns how many were ended."""
    others = list(of(user).exclude(session_key=hashed(session_key)))
    for one in others:
        _end(one)
    return len(others)


def note_seen(request: HttpRequest) -> None:
    """Remember, now and again, that a browser was here."""
    key, now = request.session.session_key, now_ms()
    if key is None or now - _seen.get(key, 0) < SEEN_EVERY_MS:
        return
    if len(_seen) > 10_000:
        _seen.clear()
    _seen[key] = now
    SignIn.objects.filter(session_key=hashed(key)).update(seen_at=now)


def moved(old_key: str | None, request: HttpRequest) -> None:
    """The same browser has a session with another key now."""
    if old_key:
        SignIn.objects.filter(session_key=hashed(old_key)).update(session_key=hashed(request.session.session_key))


def _end(one: SignIn) -> None:
    BrowserSession.objects.filter(session_key=one.session_key).delete()
    SignIn.objects.filter(pk=one.pk).update(session_key="")


def _signed_in(sender: Any, request: HttpRequest, user: User, **kwargs: Any) -> None:
    """A browser signed in; sessions that have expired are forgotten along with it."""
    BrowserSession.objects.filter(expire_date__lt=timezone.now()).delete()
    if user.has_usable_password():
        SignIn.objects.create(
            user=user,
            session_key=hashed(request.session.session_key),
            address=client_address(request),
            agent=request.headers.get("User-Agent", "")[:300],
        )


def _signed_out(sender: Any, request: HttpRequest, user: User | None, **kwargs: Any) -> None:
    if key := request.session.session_key:
        SignIn.objects.filter(session_key=hashed(key)).update(session_key="")


def install() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="sign_ins")
    user_logged_out.connect(_signed_out, dispatch_uid="sign_ins")
