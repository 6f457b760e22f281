"""Chat Completions deltas to the log's stream chunks: a pure fold, tolerant of what servers leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Chunk = dict[str, Any]

_FINISH = {"stop": "stop", "tool_calls": "tool-calls", "function_call": "tool-calls", "length": "max-tokens"}


class ChunkMapper:
    """Feed decoded SSE payloads; get chunks `block-start`, deltas, `block-end`, `usage`, `finish`.

    Blocks are numbered in the order in which they start. A delta of another kind ends the open text or
    reasoning block; tool calls stay open until the end, since servers interleave them.
    """

    def __init__(self) -> None:
        self._count = 0
        self._prose: dict[str, Any] | None = None  # the open text or reasoning block
        self._calls: dict[Any, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: dict[str, int] | None = None

    @property
    def finished(self) -> bool:
        """Whether the provider said why it stopped; a stream that ends before is broken."""
        return self._finish is not None

    def feed(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        if isinstance(payload.get("usage"), dict):
            self._usage = usage_of(payload["usage"])
        choices = payload.get("choices")
        choice = _record(choices[0]) if isinstance(choices, list) and choices else {}
        delta = _record(choice.get("delta"))
        for key in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str) and delta[key]:
                yield from self._text("reasoning", delta[key])
                break
        if isinstance(delta.get("content"), str) and delta["content"]:
            yield from self._text("text", delta["content"])
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                yield from self._call(call)
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]

    def end(self) -> Iterator[Chunk]:
        """The closing chunks of a stream that finished."""
        yield from self._end_prose()
        for call in self._calls.values():
            block = {"type": "tool-call", "id": call["id"], "name": call["name"], "arguments": "".join(call["parts"])}
            yield {"type": "block-end", "index": call["index"], "block": block}
        if self._usage:
            yield {"type": "usage", "usage": self._usage}
        kind = "tool-calls" if self._calls and self._finish == "stop" else _FINISH.get(self._finish or "", "stop")
        yield {"type": "finish", "reason": {"kind": kind}}

    def _text(self, kind: str, text: str) -> Iterator[Chunk]:
        if self._prose is None or self._prose["kind"] != kind:
            yield from self._end_prose()
            self._prose = {"kind": kind, "index": self._next_index(), "parts": []}
            yield {"type": "block-start", "index": self._prose["index"], "blockType": kind}
        self._prose["parts"].append(text)
        yield {"type": f"{kind}-delta", "index": self._prose["index"], "text": text}

    def _end_prose(self) -> Iterator[Chunk]:
        if self._prose is not None:
            block = {"type": self._prose["kind"], "text": "".join(self._prose["parts"])}
            yield {"type": "block-end", "index": self._prose["index"], "block": block}
            self._prose = None

    def _call(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        function = _record(delta.get("function"))
        key = delta.get("index", delta.get("id"))
        call = self._calls.get(key)
        if call is None:
            yield from self._end_prose()
            index = self._next_index()
            name = str(function.get("name") or "")
            call = {"index": index, "id": str(delta.get("id") or f"call_{index}"), "name": name, "parts": []}
            self._calls[key] = call
            yield {"type": "block-start", "index": index, "blockType": "tool-call"}
            first = {"name": name}
        else:
            first = {}
        arguments = function.get("arguments") if isinstance(function.get("arguments"), str) else ""
        call["parts"].append(arguments)
        yield {
            "type": "tool-call-delta",
            "index": call["index"],
            "id": call["id"],
            **first,
            "argumentsDelta": arguments,
        }

    def _next_index(self) -> int:
        self._count += 1
        return self._count - 1


def _record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def usage_of(raw: dict[str, Any]) -> dict[str, int]:
    """Disjoint counts: `inputTokens` excludes what came from the cache."""

    def count(value: Any) -> int:
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

    details = raw.get("prompt_tokens_details")
    cached = count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    cached = cached or count(raw.get("prompt_cache_hit_tokens"))
    out = {
        "inputTokens": max(0, count(raw.get("prompt_tokens")) - cached),
        "outputTokens": count(raw.get("completion_tokens")),
    }
    if cached or details is not None:
        out["cacheReadTokens"] = cached
    produced = raw.get("completion_tokens_details")
    if isinstance(produced, dict) and count(produced.get("reasoning_tokens")):
        out["reasoningTokens"] = count(produced["reasoning_tokens"])
    return out
