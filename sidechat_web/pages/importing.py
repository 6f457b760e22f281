"""Logs of other programs in, by file, folder or drop: all of them or none."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from sidechat_web.accounts import limits
from sidechat_web.core.errors import SidechatError
from sidechat_web.formats.importing import import_logs
from sidechat_web.render import links, words

from . import tree
from .access import PageRequest
from .replies import moved, note, refused


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def import_files(request: PageRequest) -> HttpResponse:
    """Choose files; a POST takes in all of them, or says which one was refused at which line."""
    if request.method != "POST":
        return _import_page(request)
    files = [(file.name or "file", cast(Any, file.file)) for file in request.FILES.getlist("files") if file.file]
    if not files:
        why = "Choose at least one file."
        return refused(request, why, lambda: _import_page(request, why))
    try:
        limits.spend(request.user.pk, limits.IMPORT)
        found = import_logs(request.user, files)
    except SidechatError as e:
        why = f"{e.message}. Nothing was imported."
        return refused(request, why, lambda: _import_page(request, why))
    if len(found) > 1:
        note(request, f"{words.plural(len(found), 'session')} imported.")
    return moved(request, links.page(found[0].pk))


def _import_page(request: PageRequest, refusal: str = "") -> HttpResponse:
    context: dict[str, Any] = {"title": "Import sessions", "refusal": refusal, "back": reverse("new")}
    if not request.htmx:
        context["tree"] = tree.forest(request.user)
    return render(request, "dialogs/import.html", context)
