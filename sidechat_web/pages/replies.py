"""How an action answers: done or refused, to htmx or to a plain form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from .access import PageRequest

CHANGED = "sidechat:changed"  # something in the tree or a pane must be derived anew
CLOSE = "sidechat:close"  # the dialog is done
SENT = "sidechat:sent"  # the composer's text was accepted; the detail has the key of the next one


def done(request: PageRequest, url: str, **events: Any) -> HttpResponse:
    """The action took place: htmx clears what was refused before and hears `events`, a form goes to `url`."""
    if not request.htmx:
        return redirect(url)
    return hearing(HttpResponse(), **events)


def hearing(response: HttpResponse, **events: Any) -> HttpResponse:
    """`response`, at which the page hears that something changed, and `events`."""
    response["HX-Trigger"] = json.dumps({CHANGED: {}, **events})
    return response


def moved(request: PageRequest, url: str, **events: Any) -> HttpResponse:
    """The action took place and its result is another page."""
    if not request.htmx:
        return redirect(url)
    return hearing(HttpResponse(headers={"HX-Redirect": url}), **events)


def refused(request: PageRequest, why: str, page: Callable[[], HttpResponse]) -> HttpResponse:
    """The action was refused: the reason, where the user is looking. `page` renders it without htmx."""
    if request.htmx:
        return render(request, "refusal.html", {"why": why}, status=422)
    response = page()
    response.status_code = 422
    return response


def note(request: PageRequest, text: str) -> None:
    """A line on the next full page."""
    messages.info(request, text)


def sentence(text: str) -> str:
    """A refusal's message as a sentence."""
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?" else ".")
