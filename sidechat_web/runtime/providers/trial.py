"""One real request to a provider, to see whether it answers."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from asgiref.sync import async_to_sync

from sidechat_web.core import events as ev
from sidechat_web.core.events import Message

from . import catalog, failures, listing, wire
from .failures import ProviderFailure
from .provider import Provider

SECONDS: Final = 60.0
MAX_CHARS: Final = 300  # of an answer that is shown
_MAX_TOKENS: Final = 512  # enough for a model that thinks first
_QUESTION: Final[Message] = {
    "id": "trial",
    "role": "user",
    "content": ev.text_blocks("Answer with the one word: ready"),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it: the answer, or why there is none in the provider's own words, without keys."""

    model: str
    answered: bool
    said: str
    seconds: float


def ask(provider: str, model: str = "") -> Trial:
    """Ask a configured provider; without a model its default, else the first that it lists. Raises NoModel."""
    if (asked := catalog.providers().get(provider)) is None:
        raise catalog.NoModel(f"the provider {provider!r} is not in use")
    if not (model := model or asked.default_model or _first_listed(asked)):
        return Trial("", False, _why_none(asked), 0.0)
    config = catalog.config(f"{provider}/{model}")
    body = wire.encode({"config": {**config, "maxTokens": _MAX_TOKENS}}, [_QUESTION])
    started = time.monotonic()
    try:
        said, answered = async_to_sync(_answer)(asked, body), True
    except ProviderFailure as e:
        said, answered = e.failure["message"], False
    return Trial(model, answered, said, time.monotonic() - started)


def _first_listed(provider: Provider) -> str:
    listed = (model["id"] for model in listing.listing().models if model["provider"] == provider.name)
    return next(listed, "").removeprefix(f"{provider.name}/")


def _why_none(provider: Provider) -> str:
    why = listing.listing(wait=False).failures.get(provider.name, f"{provider.label} lists no models")
    return f"{why} – name a model to ask all the same"


async def _answer(provider: Provider, body: bytes) -> str:
    parts: list[str] = []
    try:
        async with asyncio.timeout(SECONDS), aclosing(wire.stream(provider, body)) as chunks:
            async for chunk in chunks:
                parts.append(_text(chunk))
    except TimeoutError:
        raise failures.failure(f"no whole answer within {SECONDS:g} seconds", "STREAM_IDLE") from None
    return failures.redact("".join(parts).strip(), [provider.api_key])[:MAX_CHARS]


def _text(chunk: dict[str, Any]) -> str:
    return chunk["text"] if chunk["type"] == "text-delta" else ""
