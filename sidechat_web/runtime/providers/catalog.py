"""Which providers are configured, and how a model id leads to one.

A model id is `<provider>/<model>`; a bare model name goes to the one configured provider. Nothing is
asked over the network here: any model of a configured provider is accepted, since servers serve
models that they do not list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from django.conf import settings

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import local_model

from . import facts, stored
from .provider import ANTHROPIC, LOCAL, OPENAI, VENDORS, Protocol, Provider

# So small a model wanders when it samples, and may not find an end.
_LOCAL_SAMPLING: Final[dict[str, Any]] = {"temperature": 0, "maxTokens": 640}
_OPTIONS: Final = ("protocol", "joinUserMessages")  # what _options may put into a config


class NoModel(SidechatError):
    """No configured provider serves the model that was asked for."""

    code = "no_model"


def providers() -> dict[str, Provider]:
    """The configured providers by name, in the order in which a default is looked for.

    The environment's stand before those of Settings, and win where both have a name. Reads the database.
    """
    found = [*of_environment(), *stored.configured()]
    if local_model.available():
        found.append(Provider(LOCAL, "Embedded", None, "none", local_model.MODEL_ID))
    by_name: dict[str, Provider] = {}
    for provider in found:
        by_name.setdefault(provider.name, provider)
    return by_name


def of_environment() -> Iterator[Provider]:
    """Those whose variable is set."""
    if url := settings.SIDECHAT_OPENAI_BASE_URL:
        yield Provider("custom", "OpenAI-compatible", url, settings.SIDECHAT_OPENAI_API_KEY or "none")
    yield from (provider for provider in _hosted() if provider.api_key)
    if settings.OLLAMA_HOST:
        yield Provider("ollama", "Ollama", ollama_url(settings.OLLAMA_HOST), "ollama")


def _hosted() -> Iterator[Provider]:
    """The vendors' own services, with or without a key."""
    keys = (settings.OPENAI_API_KEY, settings.ANTHROPIC_API_KEY, settings.DEEPSEEK_API_KEY, settings.GEMINI_API_KEY)
    others = {
        "openai": settings.OPENAI_BASE_URL,
        ANTHROPIC: settings.ANTHROPIC_BASE_URL.rstrip("/").removesuffix("/v1"),
    }
    for vendor, key in zip(VENDORS.values(), keys, strict=True):
        yield replace(vendor, api_key=key, base_url=others.get(vendor.name) or vendor.base_url)


def ollama_url(host: str) -> str:
    """Where Ollama's compatible API is, from OLLAMA_HOST as its own programs read it."""
    scheme, separator, rest = host.rpartition("://")
    address, slash, path = rest.partition("/")
    if not separator and not re.search(r":\d+$", address):
        address += ":11434"
    address = re.sub(r"^0\.0\.0\.0(?=:|$)", "127.0.0.1", address)
    return f"{scheme or 'http'}://{address}{slash}{path}".rstrip("/") + "/v1"


def split(model_id: str) -> tuple[str, str]:
    """`(provider, model)` of a model id. Raises NoModel where no configured provider fits."""
    known = providers()
    name, slash, model = model_id.partition("/")
    if slash and name in known and model:
        return name, model
    remote = [p for p in known if p != LOCAL]
    if model_id == local_model.MODEL_ID and LOCAL in known:
        return LOCAL, model_id
    if len(remote) == 1 and model_id:
        return remote[0], model_id
    if not known:
        raise NoModel("no model provider is configured: add one in Settings, or set one in the environment")
    listed = ", ".join(known)
    raise NoModel(
        f"no configured provider serves the model {model_id!r}; name one as PROVIDER/MODEL with PROVIDER in: {listed}"
    )


def default_config(*, wait: bool = True) -> dict[str, Any]:
    """`{provider, model}` for a session that names no model. Raises NoModel where there is none.

    Of a server whose usual model is not known it is the first that it lists; without `wait`, if it has by now.
    """
    from . import listing

    if settings.SIDECHAT_DEFAULT_MODEL:
        return config(settings.SIDECHAT_DEFAULT_MODEL)
    for provider in providers().values():
        if model := provider.default_model or listing.first(provider, wait=wait):
            return config(f"{provider.name}/{model}")
    raise NoModel("no default model: set SIDECHAT_DEFAULT_MODEL, or name a model for the session")


def config(model_id: str) -> dict[str, Any]:
    """The part of a header's config that says who answers. Raises NoModel."""
    provider, model = split(model_id)
    sampling = _LOCAL_SAMPLING if provider == LOCAL else {}
    return {"provider": provider, "model": model, **sampling, **_options(provider)}


def current(header_config: dict[str, Any]) -> dict[str, Any]:
    """The config with its provider's settings as they are now; unchanged where the provider is not configured."""
    name = header_config["provider"]
    if name not in providers():
        return header_config
    kept = {key: value for key, value in header_config.items() if key not in _OPTIONS}
    return {**kept, **_options(name)}


def _options(name: str) -> dict[str, Any]:
    """The settings of a provider that change its request bodies, where they are not the usual ones."""
    found: dict[str, Any] = {}
    if (provider := providers().get(name)) and provider.protocol != _usual_protocol(name):
        found["protocol"] = provider.protocol
    if name in settings.SIDECHAT_JOIN_USER_MESSAGES:
        found["joinUserMessages"] = True
    return found


def protocol_of(header_config: dict[str, Any]) -> Protocol:
    """The wire that requests under this config take."""
    return header_config.get("protocol") or _usual_protocol(header_config["provider"])


def _usual_protocol(name: str) -> Protocol:
    return ANTHROPIC if name == ANTHROPIC else OPENAI


def window(header_config: dict[str, Any]) -> int | None:
    """The model's context window in tokens, where it is known."""
    if header_config["provider"] == LOCAL:
        return local_model.CONTEXT_WINDOW
    return facts.window(header_config["provider"], header_config["model"])


def cost(header_config: dict[str, Any], usage: dict[str, int]) -> float | None:
    """What one request with this usage cost in US dollars, where prices are known."""
    return facts.cost(header_config["provider"], header_config["model"], usage)


def model_id(header_config: dict[str, Any]) -> str:
    return f"{header_config['provider']}/{header_config['model']}"


def provider_of(header_config: dict[str, Any]) -> Provider:
    """The configured provider of a header's config. Raises NoModel."""
    name = header_config["provider"]
    found = providers().get(name)
    if found is None:
        raise NoModel(f"the provider {name!r} of this session is not configured; choose another model, or configure it")
    return found
