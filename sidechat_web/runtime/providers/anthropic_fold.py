"""Messages events to the log's stream chunks, tolerant of what servers leave out or add.

What must go back with a block (a thinking block's signature, redacted thinking) is kept in the block
itself: see docs/decisions/0008-provider-state.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from typing import Any, Final

from sidechat_web.core import jsontext

from .chunks import Chunk, Kind, Streaming, count, record, string
from .failures import ProviderFailure, failure, words

_KINDS: Final[dict[str, Kind]] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool-call",
}
_KIND_OF_DELTA: Final[dict[str, Kind]] = {
    "text_delta": "text",
    "thinking_delta": "reasoning",
    "input_json_delta": "tool-call",
}
_TEXT_OF_DELTA: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_FINISH: Final = {
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
}
_USAGE: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_creation_input_tokens": "cacheWriteTokens",
}
_CODES: Final = {
    "overloaded_error": "SERVER",
    "api_error": "SERVER",
    "timeout_error": "SERVER",
    "rate_limit_error": "RATE_LIMIT",
}


class MessagesFold:
    """Feed decoded events; get chunks `block-start`, deltas, `block-end`, `usage`, `finish`.

    Blocks of kinds that the log does not know are left out.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._open: dict[str, Streaming | None] = {}  # None: a block that is left out
        self._inputs: dict[int, dict[str, Any]] = {}  # tool inputs that came whole, by block number
        self._calls: set[str] = set()
        self._stop: dict[str, Any] = {}
        self._over = False
        self._usage: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        return self._over or bool(self._stop)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def feed(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        match payload.get("type"):
            case "message_start":
                self._count(record(payload.get("message")).get("usage"))
            case "content_block_start":
                yield from self._started(_key(payload), record(payload.get("content_block")))
            case "content_block_delta":
                yield from self._continued(_key(payload), record(payload.get("delta")))
            case "content_block_stop":
                yield from self._ended(_key(payload))
            case "message_delta":
                self._count(payload.get("usage"))
                delta = record(payload.get("delta"))
                self._stop = delta if string(delta.get("stop_reason")) else self._stop
            case "message_stop":
                self._over = True
            case "error":
                raise _reported(payload.get("error"))

    def end(self) -> Iterator[Chunk]:
        for key in list(self._open):
            yield from self._ended(key)
        if self._usage:
            yield {"type": "usage", "usage": self._usage}
        reason = self._stop.get("stop_reason")
        if reason == "refusal":
            said = string(record(self._stop.get("stop_details")).get("explanation"))
            raise failure(said or "the model refused to go on with this conversation", "REFUSED")
        kind = _FINISH.get(str(reason), "stop")
        yield {"type": "finish", "reason": {"kind": "tool-calls" if self._calls and kind == "stop" else kind}}

    def _started(self, key: str, block: dict[str, Any]) -> Iterator[Chunk]:
        yield from self._ended(key)
        kind = _KINDS.get(string(block.get("type")))
        if kind is None:
            self._open[key] = None
            return
        found = yield from self._begin(key, kind, string(block.get("id")), string(block.get("name")))
        if text := string(block.get("text") or block.get("thinking")):
            yield from found.delta(text)
        if isinstance(block.get("input"), dict):
            self._inputs[found.index] = block["input"]
        for ours, theirs in (("signature", "signature"), ("redacted", "data")):
            if value := string(block.get(theirs)):
                found.state[ours] = value

    def _begin(self, key: str, kind: Kind, call_id: str = "", name: str = "") -> Generator[Chunk, None, Streaming]:
        index = next(self._numbers)
        if kind == "tool-call":
            call_id = call_id or f"call_{index}"
            call_id = f"{call_id}_{index}" if call_id in self._calls else call_id
            self._calls.add(call_id)
        found = Streaming(index, kind, call_id=call_id, name=name)
        self._open[key] = found
        yield found.start()
        return found

    def _continued(self, key: str, delta: dict[str, Any]) -> Iterator[Chunk]:
        kind = _KIND_OF_DELTA.get(string(delta.get("type")))
        if key not in self._open and kind in ("text", "reasoning"):
            yield from self._begin(key, kind)
        found = self._open.get(key)
        if found is None:
            return
        if delta.get("type") == "signature_delta":
            found.state["signature"] = found.state.get("signature", "") + string(delta.get("signature"))
        elif kind == found.kind and (text := string(delta.get(_TEXT_OF_DELTA[delta["type"]]))):
            yield from found.delta(text)

    def _ended(self, key: str) -> Iterator[Chunk]:
        found = self._open.pop(key, None)
        if found is None:
            return
        if found.kind == "tool-call" and not found.text:
            yield from found.delta(jsontext.dumps(self._inputs.get(found.index, {})))
        yield from found.end()

    def _count(self, usage: Any) -> None:
        """Counts are cumulative: a later one replaces the one before."""
        given = record(usage)
        for theirs, ours in _USAGE.items():
            if type(given.get(theirs)) is int:
                self._usage[ours] = count(given[theirs])
        if thinking := count(record(given.get("output_tokens_details")).get("thinking_tokens")):
            self._usage["reasoningTokens"] = thinking


def _key(payload: dict[str, Any]) -> str:
    return repr(payload.get("index"))


def _reported(error: Any) -> ProviderFailure:
    """An error event in the stream; an overload or an inner fault may be tried again."""
    code = _CODES.get(string(record(error).get("type")))
    return failure(words(error) or "the provider reported an error", code or "PROVIDER", retryable=code is not None)
