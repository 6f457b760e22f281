"""Chat Completions through the vendor's SDK: it owns transport, authentication and event parsing.

The body is ours, as bytes, so that what is sent equals what the log rebuilds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

from sidechat_web.runtime import local_model

from .catalog import LOCAL, Provider
from .chunks import Chunk, ChunkMapper

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_SECRET = re.compile(r"(?:sk|key|token|Bearer)[-_ ][A-Za-z0-9_\-.]{8,}")
_RETRIED = frozenset({408, 409, 429})


class ProviderFailure(Exception):
    """A request without an answer. `failure` is the log's `{message, code, status?, providerRetryAfterMs?}`."""

    def __init__(self, failure: dict[str, Any], *, retryable: bool) -> None:
        super().__init__(failure["message"])
        self.failure, self.retryable = failure, retryable


async def stream(provider: Provider, body: bytes) -> AsyncGenerator[Chunk, None]:
    """The answer's chunks as they arrive. Raises ProviderFailure; after the first chunk it is never retryable."""
    mapper, started = ChunkMapper(), False
    try:
        async with asyncio.timeout(settings.SIDECHAT_STREAM_IDLE_SECONDS) as idle:
            async for payload in _payloads(provider, body):
                _raise_error_event(payload)
                for chunk in mapper.feed(payload):
                    started = True
                    yield chunk
                idle.reschedule(asyncio.get_running_loop().time() + settings.SIDECHAT_STREAM_IDLE_SECONDS)
        if not mapper.finished:
            raise ProviderFailure(
                {"message": "the provider closed the stream before the answer was finished", "code": "STREAM_BROKEN"},
                retryable=True,
            )
    except TimeoutError:
        seconds = settings.SIDECHAT_STREAM_IDLE_SECONDS
        failure = {"message": f"the provider sent nothing for {seconds} seconds", "code": "STREAM_IDLE"}
        raise ProviderFailure(failure, retryable=False) from None
    except ProviderFailure as e:
        raise ProviderFailure(e.failure, retryable=e.retryable and not started) from None
    for chunk in mapper.end():
        yield chunk


async def models(provider: Provider) -> list[str]:
    """The names that the provider lists. Raises ProviderFailure."""
    import openai

    try:
        client = await _client_for(provider)
        return [m.id async for m in client.models.list()]
    except openai.OpenAIError as e:
        raise _failure(e, provider) from None


async def _payloads(provider: Provider, body: bytes) -> AsyncIterator[dict[str, Any]]:
    import httpx2
    import openai

    try:
        client = await _client_for(provider)
        events = await client.post(
            "/chat/completions",
            cast_to=dict,
            content=body,
            options={"headers": {"Content-Type": "application/json", "Accept": "text/event-stream"}},
            stream=True,
            stream_cls=_payload_stream(),
        )
        async for payload in events:
            yield payload
    except local_model.LocalModelError as e:
        raise ProviderFailure({"message": e.message, "code": "LOCAL_MODEL"}, retryable=False) from None
    except openai.OpenAIError as e:
        raise _failure(e, provider) from None
    except httpx2.HTTPError as e:
        failure = {"message": f"the connection to {provider.label} broke: {e}", "code": "CONNECTION"}
        raise ProviderFailure(failure, retryable=True) from None


@lru_cache(maxsize=1)
def _payload_stream() -> Any:
    """An SDK stream whose items are the decoded payloads; what is not JSON is passed over."""
    from openai import AsyncStream

    class PayloadStream(AsyncStream[dict[str, Any]]):
        async def __stream__(self) -> AsyncIterator[dict[str, Any]]:
            try:
                async for sse in self._iter_events():
                    if sse.data.startswith("[DONE]"):
                        break
                    try:
                        payload = json.loads(sse.data)
                    except ValueError:
                        continue
                    if isinstance(payload, dict):
                        yield payload
            finally:
                await self.response.aclose()

    return PayloadStream


async def _client_for(provider: Provider) -> AsyncOpenAI:
    base_url = await local_model.base_url() if provider.name == LOCAL else provider.base_url
    return _client(asyncio.get_running_loop(), base_url, provider.api_key)


@lru_cache(maxsize=16)
def _client(loop: asyncio.AbstractEventLoop, base_url: str | None, api_key: str) -> AsyncOpenAI:
    import openai

    timeout = openai.Timeout(None, connect=10.0)
    return openai.AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, timeout=timeout)


def _raise_error_event(payload: dict[str, Any]) -> None:
    error = payload.get("error")
    if not error:
        return
    message = error.get("message") if isinstance(error, dict) else error
    raise ProviderFailure({"message": redact(str(message)), "code": "PROVIDER"}, retryable=True)


def _failure(error: Exception, provider: Provider) -> ProviderFailure:
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_failure(error, provider)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        message = f"cannot reach {provider.label}: {cause}"
        return ProviderFailure({"message": redact(message, provider.api_key), "code": "CONNECTION"}, retryable=True)
    return ProviderFailure({"message": redact(str(error), provider.api_key), "code": "UNKNOWN"}, retryable=False)


def _status_failure(error: Any, provider: Provider) -> ProviderFailure:
    status: int = error.status_code
    body = error.body if isinstance(error.body, dict) else {}
    words = body.get("message") or error.message
    failure: dict[str, Any] = {"message": redact(str(words), provider.api_key), "code": _code(status), "status": status}
    with contextlib.suppress(KeyError, ValueError):
        failure["providerRetryAfterMs"] = int(float(error.response.headers["retry-after"]) * 1000)
    return ProviderFailure(failure, retryable=status in _RETRIED or status >= 500)


def _code(status: int) -> str:
    if status in (401, 403):
        return "AUTH"
    if status == 429:
        return "RATE_LIMIT"
    return "SERVER" if status >= 500 else "REQUEST"


def redact(text: str, api_key: str = "") -> str:
    """`text` without anything that looks like a key."""
    if len(api_key) >= 8:
        text = text.replace(api_key, "[key]")
    return _SECRET.sub("[key]", text)
