"""Which wire form and which SDK a provider's requests take: the one place that tells them apart.

A body is a pure function of the log and this code: what a provider's settings change in it stands in the
header's `config`, where `catalog.config` wrote it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

from django.conf import settings

from sidechat_web.core import wire_anthropic, wire_openai
from sidechat_web.core.alternation import alternating
from sidechat_web.core.events import Message
from sidechat_web.core.wire_openai import Dialect

from . import failures
from .anthropic_fold import MessagesFold
from .catalog import protocol_of
from .chunks import Chunk
from .failures import ProviderFailure
from .openai_fold import ChatFold
from .provider import ANTHROPIC, Provider
from .sdk import Sdk

_OPENAI: Final = Sdk("openai", "OpenAI", "/chat/completions", ChatFold)
_ANTHROPIC: Final = Sdk("anthropic", "Anthropic", "/v1/messages", MessagesFold)

_EFFORTS: Final = {"off": "none", "low": "low", "high": "high", "max": "high"}
_DIALECTS: Final = {
    # a hosted model's reasoning does not come out, and none is taken back
    "openai": Dialect(reasoning=None, efforts=_EFFORTS, max_tokens="max_completion_tokens"),
    # reasoning is asked for with every tool call, also where there was none
    "deepseek": Dialect(always_with_calls=True),
    # unknown keys are refused; the signature of a call's thought comes back with the call
    "gemini": Dialect(reasoning=None, call_state=True, efforts=_EFFORTS),
    "ollama": Dialect(reasoning="reasoning", efforts=_EFFORTS),
}
_TAKES_CACHE_KEY: Final = frozenset({"openai"})


def encode(header: dict[str, Any], messages: Sequence[Message], *, cache_key: str | None = None) -> bytes:
    """The body of the request, byte for byte as it is sent. Raises WireError where the wire cannot say it."""
    config = header["config"]
    if config.get("joinUserMessages"):
        messages = alternating(messages)
    if protocol_of(config) == ANTHROPIC:
        return wire_anthropic.encode(wire_anthropic.body(header, messages))
    provider = config["provider"]
    dialect = _DIALECTS.get(provider, wire_openai.STANDARD)
    key = cache_key if provider in _TAKES_CACHE_KEY else None
    return wire_openai.encode(wire_openai.body(header, messages, cache_key=key, dialect=dialect))


def sdk_of(provider: Provider) -> Sdk:
    return _ANTHROPIC if provider.protocol == ANTHROPIC else _OPENAI


async def stream(provider: Provider, body: bytes) -> AsyncGenerator[Chunk, None]:
    """The answer's chunks as they arrive. Raises ProviderFailure; after the first chunk it is never retryable.

    A block's start waits for what follows it, so that an answer which broke before it said anything is tried again.
    """
    waiting: list[Chunk] = []
    started = False
    try:
        async with aclosing(_chunks(provider, body)) as chunks:
            async for chunk in chunks:
                waiting.append(chunk)
                if chunk["type"] != "block-start":
                    started = True
                    for ready in waiting:
                        yield ready
                    waiting.clear()
    except ProviderFailure as e:
        raise failures.redacted(e, [provider.api_key], retryable=e.retryable and not started) from None


async def _chunks(provider: Provider, body: bytes) -> AsyncGenerator[Chunk, None]:
    sdk = sdk_of(provider)
    fold, damaged = sdk.fold(), False
    try:
        async with asyncio.timeout(settings.SIDECHAT_STREAM_IDLE_SECONDS) as idle:
            async with aclosing(sdk.payloads(provider, body, lambda: _prolong(idle))) as payloads:
                async for payload in payloads:
                    damaged = damaged or payload is None
                    for chunk in fold.feed(payload or {}):
                        yield chunk
    except TimeoutError:
        seconds = settings.SIDECHAT_STREAM_IDLE_SECONDS
        raise failures.failure(f"the provider sent nothing for {seconds} seconds", "STREAM_IDLE") from None
    if not fold.finished:
        raise failures.broken()
    if damaged and fold.has_calls:
        raise failures.damaged()
    for chunk in fold.end():
        yield chunk


def _prolong(idle: asyncio.Timeout) -> None:
    if not idle.expired():
        idle.reschedule(asyncio.get_running_loop().time() + settings.SIDECHAT_STREAM_IDLE_SECONDS)
