"""What a user does in a session: send, stop, ask on the side, fork, continue, and change what is queued."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from sidechat_web.core.errors import SidechatError
from sidechat_web.render import links
from sidechat_web.render.transcript import render_items
from sidechat_web.runtime import approvals, commands, queue
from sidechat_web.runtime.providers import listing
from sidechat_web.runtime.quotes import Quote
from sidechat_web.runtime.sidechat import side as sides
from sidechat_web.runtime.tools import territory
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Approval, Session

from . import history, panes, slash, tree
from .access import PageRequest, session_or_404, side_to_merge_or_404, side_to_renew_or_404
from .forms import MessageForm, NewSessionForm, PlaceForm, QueuedForm, SeqForm, SideForm, first_error
from .once import once
from .replies import CLOSE, SENT, done, hearing, moved, refused, sentence
from .session import show


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: PageRequest) -> HttpResponse:
    """The page on which a session begins; its first message makes it."""
    if request.method != "POST":
        return _new_page(request)
    form = NewSessionForm(request.POST)
    if not form.is_valid():
        return refused(request, first_error(form), lambda: _new_page(request, refusal=first_error(form)))
    data = form.cleaned_data

    def begin() -> str:
        session = commands.create(request.user, model=data["model"], cwd=data["cwd"] or None)
        commands.say(session, data["text"])
        return session.pk

    try:
        session_id = once(request.user, data["key"], begin)
    except SidechatError as e:
        why = sentence(e.message)
        return refused(request, why, lambda: _new_page(request, text=data["text"], refusal=why))
    return moved(request, links.page(session_id), **{SENT: {"key": ""}})


@login_required
@require_POST
def send(request: PageRequest, session_id: str) -> HttpResponse:
    """Accept a message, or do what it says after a slash."""
    session = session_or_404(request, session_id, write=True)
    form = MessageForm(request.POST)
    if not form.is_valid():
        return _refuse_text(request, session, first_error(form))
    text, key = form.cleaned_data["text"], form.cleaned_data["key"]
    typed = None if form.cleaned_data["quotes"] else slash.read(text)
    if typed is not None:
        return _run_command(request, session, typed, key)
    mode = form.cleaned_data["mode"] or "queue"
    try:
        quotes = _quotes(request, form)
        once(request.user, key, lambda: commands.say(session, text, mode, quotes=quotes).pk)
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    return done(request, links.url(session), **{SENT: {"key": new_id()}})


@login_required
@require_POST
def open_side(request: PageRequest, session_id: str) -> HttpResponse:
    """The first message of a side: makes the side, once."""
    parent = session_or_404(request, session_id)
    form = SideForm(request.POST)
    if not form.is_valid():
        return _refuse_draft(request, parent, first_error(form))
    data = form.cleaned_data
    return _open_side(request, parent, data["text"], data["key"], data["at"], _quotes(request, form))


@login_required
@require_POST
def renew(request: PageRequest, session_id: str) -> HttpResponse:
    """A new side at the parent's present boundary, which carries what this one said."""
    old = side_to_renew_or_404(request, session_id)
    try:
        renewed = sides.renew(old, owner=request.user)
    except SidechatError as e:
        return _refuse_text(request, old, sentence(e.message))
    return _opened(request, session_or_404(request, renewed.pk))


@login_required
@require_POST
def stop(request: PageRequest, session_id: str) -> HttpResponse:
    session = session_or_404(request, session_id, write=True)
    commands.stop(session)
    return done(request, links.url(session))


@login_required
@require_POST
def continue_(request: PageRequest, session_id: str) -> HttpResponse:
    session = session_or_404(request, session_id, write=True)
    try:
        commands.continue_(session)
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    return done(request, links.url(session))


@login_required
@require_POST
def decide(request: PageRequest, session_id: str, approval_id: str) -> HttpResponse:
    """Answer whether a tool may run."""
    session = session_or_404(request, session_id, write=True)
    approval = get_object_or_404(Approval, pk=approval_id, session=session)
    try:
        approvals.decide(approval, request.POST.get("decision", ""))
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    return done(request, links.url(session))


@login_required
@require_POST
def fork(request: PageRequest, session_id: str) -> HttpResponse:
    """An ordinary session from here, without framing."""
    session = session_or_404(request, session_id)
    form = SeqForm(request.POST)
    try:
        at = form.cleaned_data["seq"] if form.is_valid() else None
        child = commands.fork(session, owner=request.user, at_seq=at)
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    return moved(request, links.page(child.pk))


@login_required
@require_http_methods(["GET", "POST"])
def edit_queued(request: PageRequest, session_id: str, item_id: str) -> HttpResponse:
    """Change the text of a message that waits for its turn, or with `position` its place."""
    session = session_or_404(request, session_id, write=True)
    place = PlaceForm(request.POST)
    try:
        item = queue.find(session, item_id)
        if place.is_valid():
            commands.edit_queued(session, item_id, position=place.cleaned_data["position"])
            return done(request, links.url(session))
        form = QueuedForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            commands.edit_queued(session, item_id, text=form.cleaned_data["text"])
            return done(request, links.url(session), **{CLOSE: {}})
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    context = {"item": item, "session": session, "form": form, "title": "Queued message", "back": links.url(session)}
    return render(request, "dialogs/queued.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def remove_queued(request: PageRequest, session_id: str, item_id: str) -> HttpResponse:
    """Take a waiting message back; its text returns to the composer."""
    session = session_or_404(request, session_id, write=True)
    try:
        item = commands.remove_queued(session, item_id)
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    if not request.htmx:
        return _page_with(request, session, text=item.text)
    return done(request, links.url(session), **{"sidechat:returned": {"session": session.pk, "text": item.text}})


def _run_command(request: PageRequest, session: Session, typed: slash.Typed, key: str) -> HttpResponse:
    """A slash command; what was typed stays in the composer where it is refused."""
    name = typed.command.name
    if name in slash.ASIDE:
        return _ask_aside(request, session, typed.text, key)
    target = side_to_merge_or_404(request, session.pk) if name == slash.MERGE else session
    try:
        slash.run(target, typed)
    except SidechatError as e:
        return _refuse_text(request, session, sentence(e.message))
    return done(request, links.url(session), **{SENT: {"key": new_id()}})


def _ask_aside(request: PageRequest, session: Session, text: str, key: str) -> HttpResponse:
    """`/btw` and `/side`: with a text a side at once, without one the empty panel."""
    if text:
        return _open_side(request, session, text, key, None)
    address = links.page(session.pk, draft="side")
    if not request.htmx:
        return redirect(address)
    response = render(request, "panes/side.html", {"side": panes.draft_pane(session)})
    return _into_panel(response, address)


def _quotes(request: PageRequest, form: MessageForm) -> list[Quote]:
    """What the message quotes, of sessions that the user may read."""
    return [
        Quote(session_or_404(request, one["session"]), one["seq"], one["text"], one["comment"])
        for one in form.cleaned_data["quotes"]
    ]


def _open_side(
    request: PageRequest, parent: Session, text: str, key: str, at: int | None, quotes: Sequence[Quote] = ()
) -> HttpResponse:
    def begin() -> str:
        return sides.open_side(parent, owner=request.user, at_seq=at, text=text, quotes=quotes).pk

    try:
        child_id = once(request.user, key, begin)
    except SidechatError as e:
        return _refuse_draft(request, parent, sentence(e.message))
    return _opened(request, session_or_404(request, child_id))


def _opened(request: PageRequest, child: Session) -> HttpResponse:
    """The new side in the panel; in the parent's transcript the mark where it left."""
    if not request.htmx or child.parent is None:
        return redirect(links.url(child))
    marked = _marked(child.parent, child)
    response = render(request, "panes/side.html", {"side": panes.pane(child), "marked": marked, "focus": True})
    return _into_panel(response, links.url(child), **{SENT: {"key": new_id()}})


def _into_panel(response: HttpResponse, address: str, **events: object) -> HttpResponse:
    """Show `response` in the side panel, wherever the form stood."""
    response = hearing(response, **events)
    response["HX-Retarget"], response["HX-Reswap"] = "#side", "innerHTML"
    response["HX-Push-Url"] = address
    return response


def _marked(parent: Session, child: Session) -> str:
    """The items of the parent's transcript that show where `child` left, rendered anew."""
    folded = history.transcript(parent, history.window(parent))
    return render_items([i for i in folded.items if links.link(child) in i.sides], swap=True)


def _refuse_text(request: PageRequest, session: Session, why: str) -> HttpResponse:
    text = request.POST.get("text", "")
    return refused(request, why, lambda: _page_with(request, session, text=text, refusal=why))


def _refuse_draft(request: PageRequest, parent: Session, why: str) -> HttpResponse:
    at = SideForm(request.POST)["at"].value()
    draft = panes.draft_pane(
        parent, at=int(at) if str(at).isdigit() else None, text=request.POST.get("text", ""), refusal=why
    )
    return refused(request, why, lambda: show(request, panes.pane(parent), draft))


def _page_with(request: PageRequest, session: Session, *, text: str = "", refusal: str = "") -> HttpResponse:
    """The session's page with `text` in its composer."""
    if links.beside(session) and session.parent is not None:
        return show(request, panes.pane(session.parent), panes.pane(session, text=text, refusal=refusal))
    return show(request, panes.pane(session, text=text, refusal=refusal), None)


def _new_page(request: PageRequest, *, text: str = "", refusal: str = "") -> HttpResponse:
    model, why_none = panes.default_model()
    found = tree.forest(request.user)
    context = {
        "title": "New session",
        "tree": found,
        "first_run": not found.groups,
        "model": model,
        "embedded": model.startswith("local/"),
        "why_none": sentence(why_none),
        "models": [one["id"] for one in listing.listing(wait=False).models],
        "chosen": request.POST.get("model", ""),
        "may_work": territory.has_any(request.user),
        "cwd": request.POST.get("cwd", ""),
        "key": new_id(),
        "text": text,
        "refusal": refusal,
    }
    partly = request.htmx and not request.htmx.history_restore_request
    return render(request, "panes/new.html" if partly else "pages/new.html", context)
