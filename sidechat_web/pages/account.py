"""A user's own account: password, browsers, tokens; for admins also invitations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from sidechat_web.accounts import audit, invitations, sign_ins, tokens
from sidechat_web.accounts.forms import DAYS, InvitationForm, PasswordForm, RowForm, TokenForm
from sidechat_web.accounts.models import ApiToken, Invitation, SignIn
from sidechat_web.accounts.session_store import hashed
from sidechat_web.render import words
from sidechat_web.render.text import line
from sidechat_web.runtime import live
from sidechat_web.storage.ids import now_ms

from . import tree
from .access import PageRequest, admin_or_404
from .forms import first_error
from .replies import note

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a list, with the id that its button names."""

    id: int
    said: str
    name: str = ""


@login_required
@require_safe
@never_cache
def account(request: PageRequest) -> HttpResponse:
    return _account_page(request)


@login_required
@sensitive_post_parameters()
@require_POST
def password(request: PageRequest) -> HttpResponse:
    """Change the password: every other browser is signed out, tokens stay."""
    if not request.user.has_usable_password():
        raise PermissionDenied("This account has no password: it is signed in on this computer alone.")
    form = PasswordForm(request.user, request.POST)
    if not form.is_valid():
        return _account_page(request, refused="password", why=first_error(form))
    request.user.set_password(form.cleaned_data["password"])
    request.user.save(update_fields=["password"])
    old_key = request.session.session_key
    update_session_auth_hash(request, request.user)
    sign_ins.moved(old_key, request)
    sign_ins.end_others(request.user, request.session.session_key)
    return _changed(
        request, "password.changed", request.user, "The password is changed; other browsers are signed out."
    )


@login_required
@require_POST
def make_token(request: PageRequest) -> HttpResponse:
    """A new token, shown on this page and never again."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _account_page(request, refused="token", why=first_error(form))
    name, scope, days = (form.cleaned_data[field] for field in ("name", "scope", "days"))
    raw = tokens.issue(request.user, name, scope=scope, expires_at=now_ms() + days * _DAY_MS if days else None)
    audit.record(request.user, request, "token.made", name, scope=scope, days=days)
    return _account_page(request, made_token=raw)


@login_required
@require_POST
def revoke_token(request: PageRequest) -> HttpResponse:
    if not tokens.revoke(request.user, _row(request)):
        raise Http404("There is no such token.")
    return _changed(request, "token.revoked", _row(request), "The token is revoked.")


@login_required
@require_POST
def end_sign_in(request: PageRequest) -> HttpResponse:
    """Sign one browser out."""
    if not sign_ins.end(request.user, _row(request)):
        raise Http404("There is no such browser.")
    return _changed(request, "sign-in.ended", _row(request), "That browser is signed out.")


@login_required
@require_POST
def invite(request: PageRequest) -> HttpResponse:
    """A new invitation: its link is shown on this page and never again."""
    admin_or_404(request)
    form = InvitationForm(request.POST)
    admin = form.is_valid() and form.cleaned_data["admin"]
    raw = invitations.invite(request.user, admin=admin)
    audit.record(request.user, request, "invitation.made", "admin" if admin else "member")
    return _account_page(request, made_link=request.build_absolute_uri(reverse("join", args=[raw])))


@login_required
@require_POST
def withdraw_invitation(request: PageRequest) -> HttpResponse:
    admin_or_404(request)
    if not invitations.withdraw(_row(request)):
        raise Http404("There is no such invitation.")
    return _changed(request, "invitation.withdrawn", _row(request), "The invitation is withdrawn.")


def _account_page(request: PageRequest, *, refused: str = "", why: str = "", **shown_once: str) -> HttpResponse:
    user = request.user
    context: dict[str, Any] = {
        "title": "Account",
        "back": reverse("home"),
        "tree": tree.forest(user),
        "tokens": [_token(one) for one in tokens.valid_tokens().filter(user=user).order_by("-created_at")],
        "sign_ins": [_sign_in(one, request.session.session_key) for one in sign_ins.of(user)],
        "has_password": user.has_usable_password(),
        "invitations": [_invitation(one) for one in invitations.pending()] if user.is_superuser else None,
        "days": DAYS,
        "refused": refused,
        "why": why,
        **shown_once,
    }
    return render(request, "pages/account.html", context, status=422 if refused else 200)


def _token(one: ApiToken) -> Row:
    may = "reads" if one.scope == ApiToken.Scope.READ else "reads and writes"
    used = f"used {_day(one.last_used_at)}" if one.last_used_at else "never used"
    ends = f"until {_day(one.expires_at)}" if one.expires_at else "does not expire"
    return Row(one.pk, f"{may}, {used}, {ends}", one.name)


def _sign_in(one: SignIn, this_browser: str | None) -> Row:
    agent = line(one.agent, 90) or "An unnamed program"
    place = f", from {one.address}" if one.address else ""
    return Row(
        one.pk,
        f"{agent}{place}, seen {_day(one.seen_at)}",
        "this one" if one.session_key == hashed(this_browser) else "",
    )


def _invitation(one: Invitation) -> Row:
    role = "an admin" if one.admin else "a member"
    return Row(one.pk, f"For {role}, by {one.made_by.get_username()}, until {_day(one.expires_at)}")


def _day(ms: int) -> str:
    then = words.moment(ms)
    return f"{then.day} {then:%B %Y}"


def _changed(request: PageRequest, action: str, target: object, said: str) -> HttpResponse:
    """Somebody lost access: sockets look again, and the account page says so."""
    audit.record(request.user, request, action, target)
    live.ring("", "access")
    note(request, said)
    return redirect("account")


def _row(request: PageRequest) -> int:
    form = RowForm(request.POST)
    if not form.is_valid():
        raise Http404("There is nothing like this.")
    return int(form.cleaned_data["row"])
