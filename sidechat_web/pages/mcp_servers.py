"""MCP servers on the settings page: what `mcp.json` has, and changes that are written back to it. For admins."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from sidechat_web.accounts import audit
from sidechat_web.render import words
from sidechat_web.runtime.tools.mcp import entries, source
from sidechat_web.runtime.tools.mcp.entries import BadEntry, Entry
from sidechat_web.runtime.tools.mcp.listing import Listing

from .access import PageRequest, admin_or_404
from .forms import first_error
from .replies import moved, note, refused, sentence

HIDDEN: Final = "••••••"  # stands for a value that is kept and not shown
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}")
_OURS: Final = ("type", "command", "args", "env", "cwd", "url", "headers", "trusted", "disabled")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    description: str
    reads_only: bool


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server of the list; `bad` says that `said` is a problem."""

    name: str
    what: str
    trusted: bool
    enabled: bool
    usable: bool
    said: str
    bad: bool
    tools: list[OfferedTool]


class ServerForm(forms.Form):
    name = forms.CharField(max_length=40, error_messages={"required": "A server needs a name."})
    command = forms.CharField(max_length=8000, required=False)
    url = forms.CharField(max_length=2000, required=False)
    pairs = forms.CharField(max_length=64_000, required=False)
    cwd = forms.CharField(max_length=2000, required=False)
    trusted = forms.BooleanField(required=False)
    enabled = forms.BooleanField(required=False)


@login_required
@sensitive_post_parameters("pairs")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def server(request: PageRequest) -> HttpResponse:
    """Add a server, or with `?name=` change one."""
    admin_or_404(request)
    try:
        old = _entry_or_404(request.GET["name"]) if "name" in request.GET else None
    except BadEntry:
        return moved(request, reverse("preferences"))  # which says what is wrong with the file
    if request.method != "POST":
        return _server_page(request, old, _given(old))
    form = ServerForm(request.POST)
    try:
        if not form.is_valid():
            raise BadEntry(first_error(form))
        name = form.cleaned_data["name"] if old is None else old.name
        _save(name, form.cleaned_data, old)
    except BadEntry as e:
        why = sentence(e.message)
        again = {**request.POST.dict(), "enabled": "enabled" in request.POST, "trusted": "trusted" in request.POST}
        return refused(request, why, lambda: _server_page(request, old, again, why))
    audit.record(request.user, request, "mcp-server.saved", name, trusted=form.cleaned_data["trusted"])
    note(request, f"{name} is saved. New sessions get its tools once they are listed.")
    return moved(request, reverse("preferences"))


@login_required
@require_POST
def trust(request: PageRequest) -> HttpResponse:
    """Trust a server's claims about its tools, or no longer."""
    admin_or_404(request)
    try:
        entry = _entry_or_404(request.POST.get("name", ""))
        trusted = request.POST.get("trusted") == "1"
        entries.save(entry.name, {**entry.raw, "trusted": trusted})
        audit.record(request.user, request, "mcp-server.saved", entry.name, trusted=trusted)
    except BadEntry as e:
        note(request, sentence(e.message))
    return moved(request, reverse("preferences"))


@login_required
@require_POST
def remove(request: PageRequest) -> HttpResponse:
    admin_or_404(request)
    try:
        entry = _entry_or_404(request.POST.get("name", ""))
        entries.remove(entry.name)
        audit.record(request.user, request, "mcp-server.removed", entry.name)
        note(request, f"{entry.name} is removed.")
    except BadEntry as e:
        note(request, sentence(e.message))
    return moved(request, reverse("preferences"))


@login_required
@require_POST
def test(request: PageRequest) -> HttpResponse:
    """Connect to the server now and list its tools."""
    admin_or_404(request)
    try:
        entry = _entry_or_404(request.POST.get("name", ""))
    except BadEntry:
        return moved(request, reverse("preferences"))  # which says what is wrong with the file
    if entry.server is not None:
        entries.list_now(entry.server)
    if not request.htmx:
        return redirect("preferences")
    return render(request, "settings/server_state.html", {"server": _row(entry)})


def shown() -> dict[str, Any]:
    """What the settings page shows of MCP servers."""
    try:
        return {"servers": [_row(entry) for entry in entries.entries()], "servers_problem": ""}
    except BadEntry as e:
        return {"servers": [], "servers_problem": sentence(e.message)}


def _entry_or_404(name: str) -> Entry:
    entry = entries.find(name)
    if entry is None:
        raise Http404("There is no such server.")
    return entry


def _row(entry: Entry) -> ServerRow:
    listed = entries.last_listing(entry) if entry.enabled else None
    said, bad = _said(entry, listed)
    what = str(entry.raw.get("url") or entry.raw.get("command") or "")
    usable = entry.enabled and entry.server is not None
    return ServerRow(
        entry.name, what, entry.raw.get("trusted") is True, entry.enabled, usable, said, bad, _tools(entry, listed)
    )


def _tools(entry: Entry, listed: Listing | None) -> list[OfferedTool]:
    if listed is None or entry.server is None:
        return []
    made = [source.tool_of(entry.server, tool) for tool in listed.tools]
    return [OfferedTool(tool.name, tool.description, tool.read_only) for tool in made]


def _said(entry: Entry, listed: Listing | None) -> tuple[str, bool]:
    if not entry.enabled:
        return "Switched off.", False
    if entry.problem:
        return sentence(entry.problem), True
    if listed is None:
        return "Not listed yet.", False
    return (listed.error, True) if listed.error else (words.plural(len(listed.tools), "tool"), False)


def _given(entry: Entry | None) -> dict[str, Any]:
    """The form as an entry fills it: values that may be secret are named, not shown."""
    if entry is None:
        return {"enabled": True}
    raw = entry.raw
    values = raw.get("headers") if raw.get("url") else raw.get("env")
    args = raw.get("args")
    command = [raw.get("command") or "", *(args if isinstance(args, list) else [])] if not raw.get("url") else []
    return {
        "name": entry.name,
        "command": shlex.join(str(part) for part in command if part != ""),
        "url": raw.get("url") or "",
        "pairs": "\n".join(f"{name}={_veiled(str(value))}" for name, value in values.items())
        if isinstance(values, dict)
        else "",
        "cwd": raw.get("cwd") or "",
        "trusted": raw.get("trusted") is True,
        "enabled": entry.enabled,
    }


def _veiled(value: str) -> str:
    """A value as it may be shown: a reference to the environment as it stands, anything else not at all."""
    return value if re.fullmatch(r"(?:Bearer )?\$\{\w+\}", value) else HIDDEN


def _save(name: str, given: dict[str, Any], old: Entry | None) -> None:
    if old is None:
        if not _NAME.fullmatch(name):
            raise BadEntry("a name has up to 40 letters, digits, spaces, dots, hyphens and underscores")
        if entries.find(name) is not None:
            raise BadEntry(f"there is a server {name!r} already")
    before = old.raw if old is not None else {}
    kept = {key: value for key, value in before.items() if key not in _OURS}
    entries.save(name, {**_described(given, before), **kept})


def _described(given: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    flags = {"trusted": True} if given["trusted"] else {}
    flags |= {} if given["enabled"] else {"disabled": True}
    if given["url"]:
        if given["command"]:
            raise BadEntry("a server has either a command or an address")
        same = urlsplit(given["url"])[:2] == urlsplit(str(before.get("url") or ""))[:2]
        headers = _values(given["pairs"], before.get("headers") if same else None)
        return {"url": given["url"], **({"headers": headers} if headers else {}), **flags}
    try:
        command, *args = shlex.split(given["command"]) or [""]
    except ValueError as e:
        raise BadEntry(f"the command cannot be read: {e}") from None
    env = _values(given["pairs"], before.get("env") if command == before.get("command") else None)
    out: dict[str, Any] = {"command": command}
    for key, value in (("args", args), ("env", env), ("cwd", given["cwd"])):
        if value:
            out[key] = value
    return {**out, **flags}


def _values(text: str, before: Any) -> dict[str, str]:
    """`NAME=value` lines; a value that was not shown stays what it was, for the same server only."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name:
            raise BadEntry("variables and headers are lines of NAME=value")
        if value == HIDDEN:
            if not isinstance(before, dict) or name not in before:
                raise BadEntry(f"enter the value of {name} again: it was given for another server")
            value = before[name]
        found[name] = value
    return found


def _server_page(request: PageRequest, old: Entry | None, given: dict[str, Any], refusal: str = "") -> HttpResponse:
    context = {
        "old": old,
        "query": "?" + urlencode({"name": old.name}) if old else "",
        "given": given,
        "refusal": refusal,
        "title": f"MCP server {old.name}" if old else "Add an MCP server",
        "back": reverse("preferences"),
    }
    return render(request, "settings/server.html", context)
