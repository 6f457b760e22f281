"""Once more from before a turn: an ordinary fork, in which its message, or another one, is sent."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.render import links
from sidechat_web.render.text import sound
from sidechat_web.runtime import commands
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .access import PageRequest, session_or_404
from .forms import RetryForm, first_error
from .once import once
from .replies import moved, note, refused, sentence


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def retry(request: PageRequest, session_id: str, seq: int) -> HttpResponse:
    """Edit the user's message at `seq`; a POST sends it in a fork from before its turn, with no text as it was."""
    session = session_or_404(request, session_id)
    said = reading.event(session, seq)
    if said is None or said.type != ev.USER_MESSAGE:
        raise Http404("There is no message of a user's here.")
    text = sound(ev.text_of(said.data))
    if request.method != "POST":
        return _edit_page(request, session, seq, text)
    form = RetryForm(request.POST)
    if not form.is_valid():
        return _edit_page(request, session, seq, text, first_error(form))
    wanted = form.cleaned_data["text"].replace("\r\n", "\n") or None
    try:
        child = once(
            request.user,
            form.cleaned_data["key"],
            lambda: commands.retry(session, seq, wanted, owner=request.user).pk,
        )
    except SidechatError as e:
        why = sentence(e.message)
        if request.htmx.target == "dialog":
            return _edit_page(request, session, seq, wanted or text, why)
        return refused(request, why, lambda: _edit_page(request, session, seq, text, why))
    note(request, f"A fork of {links.name(session)} from before that message. What came after it stays there.")
    return moved(request, links.page(child))


def _edit_page(request: PageRequest, session: Session, seq: int, text: str, refusal: str = "") -> HttpResponse:
    context = {
        "title": "Edit and resend",
        "session": session,
        "seq": seq,
        "text": text,
        "refusal": refusal,
        "back": links.url(session),
    }
    return render(request, "dialogs/retry.html", context, status=422 if refusal else 200)
