"""Reading: the page of a session, and the fragments that it loads later."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from sidechat_web.core import events as ev
from sidechat_web.render import links
from sidechat_web.render.text import sound
from sidechat_web.render.transcript import render_items
from sidechat_web.runtime import commands
from sidechat_web.storage import reading
from sidechat_web.storage.access import visible
from sidechat_web.storage.models import Session

from . import history, panes, tree
from .access import PageRequest, session_or_404, side_of_404


@login_required
@require_GET
def home(request: PageRequest) -> HttpResponse:
    """The newest session, or what teaches a newcomer."""
    newest = visible(request.user).select_related("parent").filter(archived=False).order_by("-updated_at").first()
    return redirect(links.url(newest) if newest else "new")


@login_required
@require_GET
@never_cache
def session(request: PageRequest, session_id: str) -> HttpResponse:
    if _only_the_side(request, session_id):
        return redirect(links.page(request.GET["side"]))
    main = session_or_404(request, session_id)
    if links.beside(main) and not request.GET.get("side") and not request.GET.get("draft"):
        return redirect(links.url(main))
    _mark_seen(request, main)
    side = _panel(request, main)
    return show(request, panes.pane(main, before=_number(request, "before")), side)


def show(
    request: PageRequest, main: panes.Pane, side: panes.Pane | panes.DraftPane | None, *, status: int = 200
) -> HttpResponse:
    """Main and side as a page, or as the part of it that htmx asked for."""
    context: dict[str, Any] = {"main": main, "side": side, "title": main.state.title}
    if not request.htmx or request.htmx.history_restore_request:
        context["tree"] = tree.forest(request.user, current=_current(main, side))
        return render(request, "pages/session.html", context, status=status)
    if request.htmx.target == "side" and _shown(request) == links.page(main.session.pk):
        return render(request, "panes/side.html", context, status=status)
    response = render(request, "panes/both.html", context, status=status)
    if request.htmx.target != "panes":  # what asked may be gone by now, and from there htmx finds no other target
        response["HX-Retarget"] = "#panes"
    return response


@login_required
@require_GET
@never_cache
def state(request: PageRequest, session_id: str, place: str) -> HttpResponse:
    """What changes in a pane while its transcript grows, for swapping in place."""
    found = session_or_404(request, session_id)
    _mark_seen(request, found)
    return render(request, "panes/state.html", {"state": panes.state(found), "place": place})


@login_required
@require_GET
@never_cache
def older(request: PageRequest, session_id: str) -> HttpResponse:
    """The turns before `?before=SEQ`; of a side with `?own=1` only its own."""
    found = session_or_404(request, session_id)
    own = request.GET.get("own") == "1"
    shown = history.window(found, before=_number(request, "before"), floor=found.own_from if own else 0)
    return _part(request, found, shown, own=own)


@login_required
@require_GET
@never_cache
def inherited(request: PageRequest, session_id: str) -> HttpResponse:
    """The end of what a side inherited."""
    found = session_or_404(request, session_id)
    return _part(request, found, history.window(found, before=found.own_from), own=False)


@login_required
@require_GET
def message_text(request: PageRequest, session_id: str, seq: int) -> HttpResponse:
    """The text of one message as it was written, for copying."""
    found = reading.event(session_or_404(request, session_id), seq)
    if found is None or found.message is None:
        raise Http404("There is no message here.")
    return HttpResponse(sound(ev.text_of(found.message)), content_type="text/plain; charset=utf-8")


def _only_the_side(request: PageRequest, session_id: str) -> bool:
    """Whether the address names a side beside a parent that the user may not see."""
    mine, side = visible(request.user), request.GET.get("side", "")
    return bool(side) and mine.filter(pk=side, parent=session_id).exists() and not mine.filter(pk=session_id).exists()


def _part(request: PageRequest, found: Session, shown: history.Window, *, own: bool) -> HttpResponse:
    folded = history.transcript(found, shown)
    context = {
        "session": found,
        "items": render_items(folded.items),
        "older": shown.start if shown.more else None,
        "own": own,
        "back": links.url(found),
        "title": links.name(found),
    }
    return render(request, "panes/older.html" if request.htmx else "pages/older.html", context)


def _panel(request: PageRequest, main: Session) -> panes.Pane | panes.DraftPane | None:
    if side_id := request.GET.get("side"):
        side = side_of_404(request, main, side_id)
        _mark_seen(request, side)
        return panes.pane(side)
    if request.GET.get("draft") == "side":
        return panes.draft_pane(main, at=_number(request, "at"), text=request.GET.get("text", ""))
    return None


def _current(main: panes.Pane, side: panes.Pane | panes.DraftPane | None) -> set[str]:
    return {main.session.pk} | ({side.session.pk} if isinstance(side, panes.Pane) else set())


def _mark_seen(request: PageRequest, shown: Session) -> None:
    """What the owner has seen is read."""
    if shown.unread and shown.owner_id == request.user.pk:
        commands.set_flags(shown, unread=False)


def _shown(request: PageRequest) -> str:
    """The path of the page that htmx asks from."""
    return urlsplit(request.htmx.current_url or "").path


def _number(request: PageRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
