"""A vendor's SDK as the transport of its wire. The two SDKs are twins: same names, same streams, same errors.

They own authentication, connections and the parsing of server-sent events. The body is ours, as bytes, so that
what is sent equals what the log rebuilds; retries are the turn's. An SDK is imported when it is first used.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sidechat_web.runtime import local_model

from . import failures
from .chunks import Fold
from .provider import LOCAL, Provider

Beat = Callable[[], None]  # called whenever bytes arrive

_JSON_IN_EVENTS_OUT: Final = {"Content-Type": "application/json", "Accept": "text/event-stream"}
_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sdk:
    """`client` is the name of the package's client class, `path` where a request goes, `fold` makes a new fold."""

    package: str
    client: str
    path: str
    fold: Callable[[], Fold]

    async def payloads(
        self, provider: Provider, body: bytes, beat: Beat
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """The decoded events of one answer, None for one that was damaged. Raises ProviderFailure."""
        sdk = await asyncio.to_thread(importlib.import_module, self.package)
        beat()  # the import is not the provider's silence
        with self._failures(sdk, provider):
            base_url = await local_model.base_url() if provider.name == LOCAL else provider.base_url
            client = _client(asyncio.get_running_loop(), self, base_url, provider.api_key)
            events = await client.post(
                self.path,
                cast_to=dict,
                content=body,
                options={"headers": _JSON_IN_EVENTS_OUT},
                stream=True,
                stream_cls=_payload_stream(self.package),
            )
            events.beat = beat
            async with events:
                async for payload in events:
                    yield payload

    def list_models(self, provider: Provider, timeout: float) -> list[dict[str, Any]]:
        """What the provider lists, as it describes it. Raises ProviderFailure."""
        sdk: Any = importlib.import_module(self.package)
        options = {"api_key": provider.api_key, "base_url": provider.base_url, "max_retries": 0, "timeout": timeout}
        with self._failures(sdk, provider), getattr(sdk, self.client)(**options) as client:
            return [model.model_dump(warnings=False) for model in client.models.list()]

    @contextlib.contextmanager
    def _failures(self, sdk: Any, provider: Provider) -> Iterator[None]:
        """Turn what goes wrong in a request into ProviderFailure."""
        import httpx2

        try:
            yield
        except local_model.LocalModelError as e:
            raise failures.failure(e.message, "LOCAL_MODEL") from None
        except sdk.APIStatusError as e:
            body = e.message if e.body is None else e.body
            raise failures.refused(provider.label, e.status_code, body, e.response.headers) from None
        except sdk.APIConnectionError as e:
            raise failures.unreachable(provider.label, e.__cause__ or e) from None
        except httpx2.InvalidURL as e:
            raise failures.unreachable(provider.label, e) from None
        except httpx2.HTTPError as e:
            raise failures.disconnected(provider.label, e) from None
        except getattr(sdk, f"{self.client}Error") as e:
            raise failures.failure(str(e), "UNKNOWN") from None
        except UnicodeDecodeError:
            raise failures.broken() from None


@lru_cache(maxsize=16)
def _client(loop: asyncio.AbstractEventLoop, sdk: Sdk, base_url: str | None, api_key: str) -> Any:
    """The client of one event loop, whose connections are its own."""
    package: Any = importlib.import_module(sdk.package)
    timeout = package.Timeout(None, connect=_CONNECT_SECONDS)
    client = getattr(package, f"Async{sdk.client}")
    return client(api_key=api_key, base_url=base_url, max_retries=0, timeout=timeout)


@lru_cache(maxsize=2)
def _payload_stream(package: str) -> type[Any]:
    """An SDK stream whose items are `decoded` payloads; set `beat` on it before it is read."""
    base: Any = importlib.import_module(package).AsyncStream

    class PayloadStream(base[dict[str, Any]]):  # type: ignore[misc]
        beat: Beat

        async def _pieces(self) -> AsyncIterator[bytes]:
            async for piece in self.response.aiter_bytes():
                self.beat()
                yield piece

        async def __stream__(self) -> AsyncIterator[dict[str, Any] | None]:
            try:
                async for sse in self._decoder.aiter_bytes(self._pieces()):
                    if sse.data.startswith("[DONE]"):
                        break
                    if sse.data:
                        yield decoded(sse.data)
            finally:
                await self.response.aclose()

    return PayloadStream


def decoded(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is; None for anything else. What is no finite number becomes null."""
    try:
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
