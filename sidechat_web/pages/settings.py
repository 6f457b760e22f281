"""The settings that concern everybody: model providers here, MCP servers in `mcp_servers`. For admins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from sidechat_web.accounts import audit
from sidechat_web.core.errors import SidechatError
from sidechat_web.render import words
from sidechat_web.runtime.providers import catalog, listing, stored, trial
from sidechat_web.runtime.providers.listing import Listing
from sidechat_web.runtime.providers.provider import VENDORS, Provider
from sidechat_web.runtime.providers.trial import Trial
from sidechat_web.storage.models import StoredProvider

from . import mcp_servers, tree
from .access import PageRequest, admin_or_404
from .forms import first_error
from .replies import moved, note, refused, sentence


@dataclass(frozen=True, slots=True)
class Row:
    """A provider of the list. `unused` says why it answers nobody; `model` is what a test asks by itself."""

    name: str
    label: str
    address: str
    origin: str
    editable: bool
    unused: str
    model: str
    models: list[str]
    said: str
    tried: Trial | None


class ProviderForm(forms.Form):
    name = forms.CharField(max_length=40, required=False)
    label = forms.CharField(max_length=80, required=False)
    protocol = forms.ChoiceField(choices=StoredProvider.Protocol.choices)
    base_url = forms.CharField(max_length=2000, error_messages={"required": "A provider needs an address."})
    key = forms.CharField(max_length=stored.MAX_KEY_CHARS, required=False)
    without_key = forms.BooleanField(required=False)
    default_model = forms.CharField(max_length=200, required=False)
    enabled = forms.BooleanField(required=False)


class TrialForm(forms.Form):
    model = forms.CharField(max_length=200, required=False)


@login_required
@require_safe
@never_cache
def preferences(request: PageRequest) -> HttpResponse:
    admin_or_404(request)
    return page(request)


@login_required
@sensitive_post_parameters("key")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def add_provider(request: PageRequest) -> HttpResponse:
    """A provider to be added; `?kind=NAME` fills in what is usual for a vendor."""
    admin_or_404(request)
    vendor = VENDORS.get(request.GET.get("kind", ""), Provider("", "", "", ""))
    given = {
        "name": vendor.name,
        "label": vendor.label,
        "protocol": vendor.protocol,
        "base_url": vendor.base_url,
        "default_model": vendor.default_model,
        "enabled": True,
    }
    if request.method != "POST":
        return _provider_page(request, None, given)
    return _write(request, None)


@login_required
@sensitive_post_parameters("key")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def edit_provider(request: PageRequest, name: str) -> HttpResponse:
    row = _row_or_404(request, name)
    if request.method != "POST":
        return _provider_page(request, row, {field: getattr(row, field) for field in _FIELDS})
    return _write(request, row)


@login_required
@require_POST
def remove_provider(request: PageRequest, name: str) -> HttpResponse:
    row = _row_or_404(request, name)
    stored.remove(row.name)
    audit.record(request.user, request, "provider.removed", row.name)
    note(request, f"{row.label} is removed, and its key with it.")
    return moved(request, reverse("preferences"))


@login_required
@require_safe
@never_cache
def provider_models(request: PageRequest, name: str) -> HttpResponse:
    """How many models a provider lists, once it has answered."""
    admin_or_404(request)
    if not request.htmx:
        return redirect("preferences")
    found = listing.listing()
    row = next((row for row in _rows(found) if row.name == name), None)
    if row is None:
        raise Http404("There is no such provider.")
    return render(request, "settings/models.html", {"row": row})


@login_required
@require_POST
def test_provider(request: PageRequest, name: str) -> HttpResponse:
    """One real request, and what came of it."""
    admin_or_404(request)
    form = TrialForm(request.POST)
    try:
        tried = trial.ask(name, form.cleaned_data["model"] if form.is_valid() else "")
    except SidechatError as e:
        tried = Trial("", False, sentence(e.message), 0)
    if request.htmx:
        return render(request, "settings/tried.html", {"tried": tried})
    return page(request, tried={name: tried})


def page(request: PageRequest, *, tried: dict[str, Trial] | None = None, **more: Any) -> HttpResponse:
    """The whole page, with what was `tried` beside the provider that was asked."""
    context = {
        "title": "Settings",
        "back": reverse("home"),
        "tree": tree.forest(request.user),
        "providers": _rows(listing.listing(wait=False), tried or {}),
        "vendors": list(VENDORS.values()),
        **mcp_servers.shown(),
        **more,
    }
    return render(request, "settings/page.html", context)


_FIELDS = ("name", "label", "protocol", "base_url", "default_model", "enabled")


def _row_or_404(request: PageRequest, name: str) -> StoredProvider:
    admin_or_404(request)
    row = StoredProvider.objects.filter(name=name).first()
    if row is None:
        raise Http404("There is no such provider.")
    return row


def _write(request: PageRequest, row: StoredProvider | None) -> HttpResponse:
    form = ProviderForm(request.POST)
    again = {**request.POST.dict(), "enabled": "enabled" in request.POST}
    if not form.is_valid():
        return refused(request, first_error(form), lambda: _provider_page(request, row, again, first_error(form)))
    try:
        written = _store(form.cleaned_data, row)
    except SidechatError as e:
        why = sentence(e.message)
        return refused(request, why, lambda: _provider_page(request, row, again, why))
    action = "provider.changed" if row else "provider.added"
    audit.record(request.user, request, action, written.name, address=written.base_url)
    note(request, f"{written.label} is {'changed' if row else 'added'}. Test it to see that it answers.")
    return moved(request, reverse("preferences"))


def _store(given: dict[str, Any], row: StoredProvider | None) -> StoredProvider:
    fields = {field: given[field] for field in _FIELDS if field != "name"}
    if row is None:
        return stored.add(given["name"], given["key"], **fields)
    key = "" if given["without_key"] else given["key"] or None
    return stored.change(row.name, key, **fields)


def _provider_page(
    request: PageRequest, row: StoredProvider | None, given: dict[str, Any], refusal: str = ""
) -> HttpResponse:
    context = {
        "row": row,
        "given": given,
        "protocols": StoredProvider.Protocol.choices,
        "refusal": refusal,
        "title": f"Provider {row.name}" if row else "Add a provider",
        "back": reverse("preferences"),
    }
    return render(request, "settings/provider.html", context)


def _rows(found: Listing, tried: dict[str, Trial] | None = None) -> list[Row]:
    """The providers that answer, then those of Settings that do not."""
    used, own = catalog.providers(), {row.name: row for row in stored.rows()}
    answering = [_used(one, own.get(one.name), found) for one in used.values()]
    idle = [_unused(row) for row in own.values() if row.name not in used]
    return [replace(row, tried=(tried or {}).get(row.name)) for row in answering + idle]


def _used(provider: Provider, row: StoredProvider | None, found: Listing) -> Row:
    prefix = f"{provider.name}/"
    models = [model["id"].removeprefix(prefix) for model in found.models if model["provider"] == provider.name]
    failure = found.failures.get(provider.name, "")
    outside = provider.name in {one.name for one in catalog.of_environment()}
    origin = "from the environment" if outside else "embedded" if row is None else "added here"
    shadowed = " – wins over the one that was added here" if outside and row is not None else ""
    return Row(
        provider.name,
        provider.label,
        provider.base_url or "",
        origin + shadowed,
        editable=row is not None,
        unused="",
        model=provider.default_model or next(iter(models), ""),
        models=models,
        said=sentence(failure) if failure else words.plural(len(models), "model"),
        tried=None,
    )


def _unused(row: StoredProvider) -> Row:
    why = "Its key cannot be read with this server’s secret key: enter it again." if row.enabled else "Switched off."
    return Row(row.name, row.label, row.base_url, "added here", True, why, row.default_model, [], "", None)
