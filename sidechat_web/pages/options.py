"""A session's settings: name, model, pin, archive; and its end."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from sidechat_web.core.errors import SidechatError
from sidechat_web.formats import exporting
from sidechat_web.render import links, words
from sidechat_web.render.items import Link
from sidechat_web.runtime import commands, spending
from sidechat_web.runtime.providers import listing
from sidechat_web.runtime.sidechat import side as sides
from sidechat_web.runtime.views import session_json
from sidechat_web.storage.models import Session

from .access import PageRequest, own_session_or_404, session_or_404
from .forms import DeleteForm, SettingsForm, first_error
from .replies import CLOSE, done, moved, sentence
from .sharing import others_exist


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def settings(request: PageRequest, session_id: str) -> HttpResponse:
    session = session_or_404(request, session_id, write=request.method == "POST")
    if request.method != "POST":
        return _settings_page(request, session)
    form = SettingsForm(request.POST)
    if not form.is_valid():
        return _settings_page(request, session, refusal=first_error(form))
    try:
        _apply(session, form.cleaned_data)
    except SidechatError as e:
        return _settings_page(request, session, refusal=sentence(e.message))
    return done(request, links.url(session), **{CLOSE: {}})


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def delete(request: PageRequest, session_id: str) -> HttpResponse:
    """Ask what becomes of the sides, then delete."""
    session = own_session_or_404(request, session_id)
    form = DeleteForm(request.POST)
    if request.method == "POST" and form.is_valid():
        try:
            commands.delete(session, form.cleaned_data["sides"] or None)
        except SidechatError as e:
            return _delete_page(request, session, refusal=sentence(e.message))
        return moved(
            request, links.url(session.parent) if links.beside(session) and session.parent else reverse("home")
        )
    return _delete_page(request, session)


@login_required
@require_safe
def export(request: PageRequest, session_id: str, format: exporting.Format) -> StreamingHttpResponse:
    """The session as a file to keep."""
    found = exporting.export(session_or_404(request, session_id), format)
    return StreamingHttpResponse(found.pieces(), headers=found.headers)


def _apply(session: Session, wanted: dict[str, Any]) -> None:
    if wanted["title"] != session.title:
        commands.rename(session, wanted["title"])
    if wanted["model"] and wanted["model"] != session_json(session)["model"]:
        commands.set_model(session, wanted["model"])
    commands.set_flags(session, pinned=wanted["pinned"], archived=wanted["archived"])


def _settings_page(request: PageRequest, session: Session, *, refusal: str = "") -> HttpResponse:
    shape = session_json(session)
    given = request.POST or {"title": session.title, "model": shape["model"]}
    context = {
        "session": session,
        "name": links.name(session),
        "given": given,
        "models": _known_models(),
        "context": words.tokens(session.context_used) if session.context_used else "",
        "usage": shape["usage"],
        "cwd": session.cwd,
        "cost": words.dollars(cost.dollars) if (cost := spending.spent(session)).priced else "",
        "may_share": session.owner_id == request.user.pk and others_exist(request.user),
        "is_side": session.kind == Session.Kind.SIDE,
        "can_promote": session.kind == Session.Kind.SIDE and sides.is_advisor(session),
        "refusal": refusal,
        "title": "Session settings",
        "back": links.url(session),
    }
    return render(request, "dialogs/settings.html", context, status=422 if refusal else 200)


def _delete_page(request: PageRequest, session: Session, *, refusal: str = "") -> HttpResponse:
    context = {
        "session": session,
        "name": links.name(session),
        "sides": _sides_below(session),
        "refusal": refusal,
        "title": "Delete session",
        "back": links.url(session),
    }
    return render(request, "dialogs/delete.html", context, status=422 if refusal else 200)


def _sides_below(session: Session) -> list[Link]:
    """The living sides at any depth that would be deleted, too: the owner's own."""
    found: list[Session] = []
    level = [session]
    while level:
        rows = Session.objects.filter(
            parent__in=level, owner_id=session.owner_id, kind=Session.Kind.SIDE, deleted_at=None
        )
        level = list(rows.select_related("parent").order_by("created_at"))
        found += level
    return [links.link(one) for one in found]


def _known_models() -> list[str]:
    """Model ids to suggest, as far as the providers have listed them by now."""
    return [model["id"] for model in listing.listing(wait=False).models]
