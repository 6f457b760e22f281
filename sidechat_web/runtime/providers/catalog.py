"""Which providers are configured, and how a model id leads to one.

A model id is `<provider>/<model>`; a bare model name goes to the one configured provider. Nothing is
asked over the network here: any model of a configured provider is accepted, since servers serve
models that they do not list.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import local_model

LOCAL = "local"


class NoModel(SidechatError):
    """No configured provider serves the model that was asked for."""

    code = "no_model"


@dataclass(frozen=True, slots=True)
class Provider:
    """A server that speaks Chat Completions. `base_url` None is the vendor's own, or the embedded server."""

    name: str
    label: str
    base_url: str | None
    api_key: str
    default_model: str = ""
    takes_cache_key: bool = False


_KNOWN = (
    # name, label, key variable, base URL, default model, takes a cache key
    ("openai", "OpenAI", "OPENAI_API_KEY", None, "gpt-5-mini", True),
    ("deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1", "deepseek-chat", False),
    (
        "gemini",
        "Gemini",
        "GEMINI_API_KEY",
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        "gemini-2.5-flash",
        False,
    ),
)


def providers() -> dict[str, Provider]:
    """The configured providers by name, in the order in which a default is looked for."""
    found = {}
    if settings.SIDECHAT_OPENAI_BASE_URL:
        key = settings.SIDECHAT_OPENAI_API_KEY or "none"
        found["custom"] = Provider("custom", "OpenAI-compatible", settings.SIDECHAT_OPENAI_BASE_URL, key)
    for name, label, variable, url, model, cache in _KNOWN:
        if key := os.environ.get(variable, ""):
            found[name] = Provider(name, label, url, key, model, cache)
    if host := os.environ.get("OLLAMA_HOST", ""):
        url = host if "://" in host else f"http://{host}"
        found["ollama"] = Provider("ollama", "Ollama", url.rstrip("/") + "/v1", "ollama")
    if local_model.available():
        found[LOCAL] = Provider(LOCAL, "Embedded", None, "none", local_model.MODEL_ID)
    return found


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
        raise NoModel("no model provider is configured: set one in the environment, see docs/configuration.md")
    listed = ", ".join(known)
    raise NoModel(
        f"no configured provider serves the model {model_id!r}; name one as PROVIDER/MODEL with PROVIDER in: {listed}"
    )


def default_config() -> dict[str, Any]:
    """`{provider, model}` for a session that names no model. Raises NoModel where there is none."""
    if settings.SIDECHAT_DEFAULT_MODEL:
        return config(settings.SIDECHAT_DEFAULT_MODEL)
    for provider in providers().values():
        if provider.default_model:
            return {"provider": provider.name, "model": provider.default_model}
    raise NoModel("no default model: set SIDECHAT_DEFAULT_MODEL, or name a model for the session")


def config(model_id: str) -> dict[str, Any]:
    provider, model = split(model_id)
    return {"provider": provider, "model": model}


def window(header_config: dict[str, Any]) -> int | None:
    """The model's context window in tokens, where it is known."""
    return local_model.CONTEXT_WINDOW if header_config["provider"] == LOCAL else None


def model_id(header_config: dict[str, Any]) -> str:
    return f"{header_config['provider']}/{header_config['model']}"


def provider_of(header_config: dict[str, Any]) -> Provider:
    """The configured provider of a header's config. Raises NoModel."""
    name = header_config["provider"]
    found = providers().get(name)
    if found is None:
        raise NoModel(f"the provider {name!r} of this session is not configured; choose another model, or configure it")
    return found
