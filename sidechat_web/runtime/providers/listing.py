"""The models that the configured providers list, for a picker and the API.

Providers are asked side by side and briefly; what one answered is kept for a while. One that fails is
reported beside what the others list.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass
from typing import Any, Final

from . import catalog, facts, failures, wire
from .provider import LOCAL, Provider

ASKING_SECONDS: Final = 5.0
KEPT_SECONDS: Final = 300.0
FAILURE_KEPT_SECONDS: Final = 15.0
_WINDOW_KEYS: Final = ("max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length")
_NO_CHAT: Final = re.compile(
    r"embed|whisper|\btts\b|transcribe|audio|realtime|-live|moderation|dall-e|image|imagen|\bveo|sora-|babbage|davinci|\baqa"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """`models` as the API shows them; `failures` says by provider why one listed nothing."""

    models: list[dict[str, Any]]
    failures: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Answer:
    models: list[dict[str, Any]]
    failure: str
    until: float


_answers: dict[Provider, _Answer] = {}
_asking: dict[Provider, Future[_Answer]] = {}
_lock = threading.Lock()
_pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="models")


def list_models() -> list[dict[str, Any]]:
    """`[{id, provider, name, window?}]` of every configured provider; takes a few seconds at most."""
    return listing().models


def listing(*, wait: bool = True, fresh: bool = False) -> Listing:
    """What each provider lists, the default first, with the failures.

    `fresh` asks again. Without `wait` it is what is known at once, and the rest is asked for meanwhile.
    """
    providers = list(catalog.providers().values())
    asked = {p: _ask(p) for p in providers if fresh or not _is_kept(p)}
    deadline = time.monotonic() + (ASKING_SECONDS + 1 if wait else 0)
    models: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for provider in providers:
        answer = _answer(provider, asked.get(provider), deadline)
        models += answer.models
        if answer.failure:
            failed[provider.name] = answer.failure
    return Listing(_default_first(models), failed)


def first(provider: Provider, *, wait: bool = True) -> str:
    """The name of the first model that a server lists; empty where it lists none, or has not yet and we do not wait."""
    coming = None if _is_kept(provider) else _ask(provider)
    answer = _answer(provider, coming, time.monotonic() + (ASKING_SECONDS + 1 if wait else 0))
    return answer.models[0]["id"].partition("/")[2] if answer.models else ""


def _default_first(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        config = catalog.default_config(wait=False)
    except catalog.NoModel:
        return models
    default = catalog.model_id(config)
    listed = [model for model in models if model["id"] == default]
    first = listed or [_entry(catalog.provider_of(config), {"id": config["model"]})]
    return [*first, *(model for model in models if model["id"] != default)]


def _answer(provider: Provider, coming: Future[_Answer] | None, deadline: float) -> _Answer:
    """What the provider answers before the deadline, else what it answered last."""
    if coming is not None:
        with contextlib.suppress(NoAnswer):
            return coming.result(max(0.0, deadline - time.monotonic()))
    with _lock:
        return _answers.get(provider) or _failed(provider, f"{provider.label} has not answered yet")


def _is_kept(provider: Provider) -> bool:
    with _lock:
        return provider in _answers and _answers[provider].until > time.monotonic()


def _ask(provider: Provider) -> Future[_Answer]:
    """The answer to come; a provider that is being asked already is not asked twice."""
    with _lock:
        if provider not in _asking or _asking[provider].done():
            _asking[provider] = _pool.submit(_asked_and_kept, provider)
        return _asking[provider]


def _asked_and_kept(provider: Provider) -> _Answer:
    answer = _asked(provider)
    with _lock:
        _answers[provider] = answer
    return answer


def _asked(provider: Provider) -> _Answer:
    if provider.name == LOCAL:  # asking would start it
        return _Answer([_entry(provider, {"id": provider.default_model})], "", time.monotonic() + KEPT_SECONDS)
    try:
        found = wire.sdk_of(provider).list_models(provider, ASKING_SECONDS)
    except failures.ProviderFailure as e:
        return _failed(provider, failures.redacted(e, [provider.api_key]).failure["message"])
    except (AttributeError, TypeError, ValueError):
        return _failed(provider, f"{provider.label} answered with something that is no list of models")
    chat = [model for model in found if isinstance(model.get("id"), str) and not _NO_CHAT.search(model["id"])]
    entries = sorted((_entry(provider, model) for model in chat), key=lambda entry: str(entry["id"]))
    return _Answer(entries, "", time.monotonic() + KEPT_SECONDS)


def _failed(provider: Provider, message: str) -> _Answer:
    """A failure; the provider's usual model can be chosen all the same."""
    usual = [_entry(provider, {"id": provider.default_model})] if provider.default_model else []
    return _Answer(usual, message, time.monotonic() + FAILURE_KEPT_SECONDS)


def _entry(provider: Provider, model: dict[str, Any]) -> dict[str, Any]:
    name = model["id"].removeprefix("models/")
    told = next((model[key] for key in _WINDOW_KEYS if type(model.get(key)) is int and model[key] > 0), None)
    if told:
        facts.learn(provider.name, name, told)
    config = {"provider": provider.name, "model": name}
    entry = {"id": f"{provider.name}/{name}", "provider": provider.name, "name": model.get("display_name") or name}
    window = catalog.window(config)
    return {**entry, "window": window} if window else entry
