"""Who else may read or write a session."""

from __future__ import annotations

from django import forms
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from sidechat_web.accounts import audit
from sidechat_web.core.errors import SidechatError
from sidechat_web.render import links
from sidechat_web.runtime import sharing
from sidechat_web.storage.models import Session

from .access import PageRequest, own_session_or_404
from .forms import first_error
from .replies import sentence


class ShareForm(forms.Form):
    user = forms.CharField(max_length=150, error_messages={"required": "Name a user."})
    may = forms.ChoiceField(choices=[("read", ""), ("write", ""), ("nothing", "")])


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def share(request: PageRequest, session_id: str) -> HttpResponse:
    """The shares of a session; a POST adds, changes or ends one."""
    session = own_session_or_404(request, session_id)
    if request.method != "POST":
        return _share_page(request, session)
    form = ShareForm(request.POST)
    if not form.is_valid():
        return _share_page(request, session, refusal=first_error(form))
    user, may = form.cleaned_data["user"], form.cleaned_data["may"]
    try:
        if may == "nothing":
            sharing.unshare(session, user)
        else:
            sharing.share(session, user, write=may == "write")
    except SidechatError as e:
        return _share_page(request, session, refusal=sentence(e.message))
    audit.record(request.user, request, "session.shared", session.pk, user=user, may=may)
    return _share_page(request, session)


def others_exist(user: User) -> bool:
    return User.objects.filter(is_active=True).exclude(pk=user.pk).exists()


def _share_page(request: PageRequest, session: Session, *, refusal: str = "") -> HttpResponse:
    context = {
        "session": session,
        "shares": sharing.shares_of(session),
        "given": request.POST if refusal else {},
        "refusal": refusal,
        "title": f"Share {links.name(session)}",
        "back": links.url(session),
    }
    return render(request, "dialogs/share.html", context, status=422 if refusal else 200)
