"""Chat Completions deltas to the log's stream chunks, tolerant of what servers leave out or add."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from .chunks import Chunk, Kind, Streaming, count, record, string
from .failures import ProviderFailure, failure, words

_FINISH: Final = {"stop": "stop", "tool_calls": "tool-calls", "function_call": "tool-calls", "length": "max-tokens"}
_REASONING: Final = ("reasoning_content", "reasoning")


class ChatFold:
    """Feed decoded payloads; get chunks `block-start`, deltas, `block-end`, `usage`, `finish`.

    A delta of another kind ends the open text or reasoning block; tool calls stay open until the end,
    since servers interleave them.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._prose: Streaming | None = None  # the open text or reasoning block
        self._calls: list[tuple[str, Streaming]] = []  # with the key that the server continues each under
        self._finish = ""
        self._usage: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        return bool(self._finish)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def feed(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        if payload.get("error"):
            raise _reported(payload["error"])
        if isinstance(payload.get("usage"), dict):
            self._usage = usage_of(payload["usage"])
        choices = payload.get("choices")
        choice = record(choices[0]) if isinstance(choices, list) and choices else {}
        delta = record(choice.get("delta"))
        if reasoning := next((text for key in _REASONING if (text := string(delta.get(key)))), ""):
            yield from self._said("reasoning", reasoning)
        if text := string(delta.get("content")):
            yield from self._said("text", text)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            yield from self._called(record(call))
        self._finish = string(choice.get("finish_reason")) or self._finish

    def end(self) -> Iterator[Chunk]:
        yield from self._end_prose()
        for _, call in self._calls:
            yield from call.end()
        if self._usage:
            yield {"type": "usage", "usage": self._usage}
        if self._finish == "content_filter":
            raise failure("the provider's content filter stopped the answer", "REFUSED")
        kind = "tool-calls" if self._calls and self._finish == "stop" else _FINISH.get(self._finish, "stop")
        yield {"type": "finish", "reason": {"kind": kind}}

    def _said(self, kind: Kind, text: str) -> Iterator[Chunk]:
        if self._prose is None or self._prose.kind != kind:
            yield from self._end_prose()
            self._prose = Streaming(next(self._numbers), kind)
            yield self._prose.start()
        yield from self._prose.delta(text)

    def _end_prose(self) -> Iterator[Chunk]:
        if self._prose is not None:
            yield from self._prose.end()
            self._prose = None

    def _called(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        function = record(delta.get("function"))
        call = self._continued(delta, string(function.get("name")))
        if call is None:
            yield from self._end_prose()
            call = self._opened(delta, string(function.get("name")))
            yield call.start()
        if signature := string(record(record(delta.get("extra_content")).get("google")).get("thought_signature")):
            call.state["extra_content"] = {"google": {"thought_signature": signature}}
        yield from call.delta(string(function.get("arguments")))

    def _continued(self, delta: dict[str, Any], name: str) -> Streaming | None:
        """The call that this delta goes on with: the last one under its key, unless it names a call of its own."""
        key = _key(delta)
        for known, call in reversed(self._calls):
            if known == key:
                other = name and delta.get("id") and delta["id"] != call.call_id
                return None if other else call
        return None

    def _opened(self, delta: dict[str, Any], name: str) -> Streaming:
        index = next(self._numbers)
        taken = {call.call_id for _, call in self._calls}
        call_id = string(delta.get("id")) or f"call_{index}"
        call = Streaming(index, "tool-call", call_id=f"{call_id}_{index}" if call_id in taken else call_id, name=name)
        self._calls.append((_key(delta), call))
        return call


def _key(delta: dict[str, Any]) -> str:
    """What a server continues a call under: its index, or where there is none its id."""
    return repr(delta["index"] if "index" in delta else delta.get("id"))


def _reported(error: Any) -> ProviderFailure:
    """An error event. One that names a client's fault is not tried again."""
    status = record(error).get("code")
    final = type(status) is int and 400 <= status < 500 and status not in (408, 409, 429)
    return failure(words(error) or "the provider reported an error", "PROVIDER", retryable=not final)


def usage_of(raw: dict[str, Any]) -> dict[str, int]:
    """Disjoint counts: `inputTokens` excludes what came from the cache."""
    details = raw.get("prompt_tokens_details")
    cached = count(record(details).get("cached_tokens")) or count(raw.get("prompt_cache_hit_tokens"))
    out = {
        "inputTokens": max(0, count(raw.get("prompt_tokens")) - cached),
        "outputTokens": count(raw.get("completion_tokens")),
    }
    if cached or isinstance(details, dict):
        out["cacheReadTokens"] = cached
    if reasoning := count(record(raw.get("completion_tokens_details")).get("reasoning_tokens")):
        out["reasoningTokens"] = reasoning
    return out
