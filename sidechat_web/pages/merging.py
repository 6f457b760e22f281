"""Merging a side back, and what comes with it: review, cancel, retract, promote."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.render import links
from sidechat_web.runtime import queue
from sidechat_web.runtime.sidechat import merge_back, note, turns
from sidechat_web.runtime.sidechat import side as sides
from sidechat_web.storage.models import Session

from . import history, panes
from .access import PageRequest, session_or_404, side_to_merge_or_404
from .forms import NoteForm, SeqForm, first_error
from .replies import CLOSE, done, moved, refused, sentence
from .session import show


@login_required
@require_POST
def merge(request: PageRequest, session_id: str) -> HttpResponse:
    """One click: the side is asked for a note, or the note that the user wrote is taken."""
    side = side_to_merge_or_404(request, session_id)
    form = NoteForm(request.POST)
    if not form.is_valid():
        return refused(request, first_error(form), lambda: _page(request, side, first_error(form)))
    data = form.cleaned_data
    try:
        merge_back.merge(side, text=data["text"] if data["written"] else None, steer=data["steer"])
    except SidechatError as e:
        why = sentence(e.message)
        if data["written"] and not request.htmx:
            return _review_page(request, side, text=data["text"], refusal=why)
        return refused(request, why, lambda: _page(request, side, why))
    return done(request, links.url(side), **({CLOSE: {}} if data["written"] else {}))


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def merge_sides(request: PageRequest, session_id: str) -> HttpResponse:
    """Choose sides of a session; a POST makes one note out of those that are chosen."""
    parent = session_or_404(request, session_id, write=True)
    if request.method != "POST":
        return _choice_page(request, parent)
    chosen = [side_to_merge_or_404(request, one) for one in request.POST.getlist("sides")]
    if not chosen:
        return _choice_page(request, parent, "Choose at least one side.")
    try:
        merge_back.merge_selected(chosen, steer=request.POST.get("steer") == "1")
    except SidechatError as e:
        return _choice_page(request, parent, sentence(e.message))
    return done(request, links.url(parent), **{CLOSE: {}})


def _choice_page(request: PageRequest, parent: Session, refusal: str = "") -> HttpResponse:
    context = {
        "title": "One note out of several sides",
        "session": parent,
        "sides": [(one, links.name(one), (merge_back.why_not(one) or ("", ""))[1]) for one in history.children(parent)],
        "chosen": request.POST.getlist("sides"),
        "parent_running": parent.open_turn is not None,
        "refusal": refusal,
        "back": links.url(parent),
    }
    return render(request, "dialogs/merge-sides.html", context, status=422 if refusal else 200)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def review(request: PageRequest, session_id: str) -> HttpResponse:
    """The side's draft to edit before anything reaches the parent. A POST asks for it, `?own=1` starts empty."""
    side = session_or_404(request, session_id, write=True)
    if side.kind != Session.Kind.SIDE:
        raise Http404("Only a side session is merged back.")
    if request.GET.get("own") == "1":
        return _review_page(request, side, text="")
    try:
        asked = merge_back.handback(side) if request.method == "POST" else turns.draft(turns.own(side))
    except SidechatError as e:
        return _review_page(request, side, refusal=sentence(e.message), writing=False)
    return _review_page(request, side, text=asked.text if asked else None)


@login_required
@require_POST
def cancel_merge(request: PageRequest, session_id: str, merge_id: str) -> HttpResponse:
    session = session_or_404(request, session_id, write=True)
    try:
        merge_back.cancel(session, merge_id)
    except SidechatError as e:
        why = sentence(e.message)
        return refused(request, why, lambda: _page(request, session, why))
    return done(request, links.url(session))


@login_required
@require_POST
def retract(request: PageRequest, session_id: str) -> HttpResponse:
    """Take a note from the model's view; the transcript keeps showing both."""
    parent = session_or_404(request, session_id, write=True)
    form = SeqForm(request.POST)
    if not form.is_valid():
        raise Http404("There is no such note.")
    try:
        merge_back.retract(parent, form.cleaned_data["seq"])
    except SidechatError as e:
        why = sentence(e.message)
        return refused(request, why, lambda: _page(request, parent, why))
    return done(request, links.page(parent.pk))


@login_required
@require_POST
def promote(request: PageRequest, session_id: str) -> HttpResponse:
    """Make a side an ordinary session."""
    side = session_or_404(request, session_id, write=True)
    try:
        sides.promote(side)
    except SidechatError as e:
        why = sentence(e.message)
        return refused(request, why, lambda: _page(request, side, why))
    return moved(request, links.page(side.pk))


def _review_page(
    request: PageRequest, side: Session, *, text: str | None = None, refusal: str = "", writing: bool = True
) -> HttpResponse:
    """The draft to edit; without a `text` the page waits for it while the side is `writing`."""
    head = note.first_line(side.title, side.log_id)
    parent = side.parent
    context = {
        "side": side,
        "name": links.name(side),
        "text": text,
        "refusal": refusal,
        "writing": writing and text is None and _is_writing(side),
        "most": settings.SIDECHAT_HANDBACK_MAX_CHARS - len(head),
        "parent_running": parent is not None and parent.open_turn is not None,
        "title": "Review the note",
        "back": links.url(side),
    }
    return render(request, "dialogs/review.html", context)


def _is_writing(side: Session) -> bool:
    """Whether a handback is on its way: waiting to be asked for, or being written."""
    own = turns.own(side)
    asked = queue.pending(side).filter(event_type=ev.CONTEXT_MESSAGE).exists()
    return asked or (bool(own) and own[-1].handback and own[-1].end is None)


def _page(request: PageRequest, session: Session, why: str) -> HttpResponse:
    if links.beside(session) and session.parent is not None:
        return show(request, panes.pane(session.parent), panes.pane(session, refusal=why))
    return show(request, panes.pane(session, refusal=why), None)
