"""The two wires of the scripted provider: how each reads a conversation, and how it says an answer.

The Messages wire is as strict as the real one where a client can go wrong: it refuses, in the vendor's words, tool
calls without results, repeated ids, empty text, thinking that it did not sign, and too many breakpoints.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Wire(Protocol):
    """`prompt` is the last thing said, `said` everything, `after_tool` whether tool results came last."""

    prompt: str
    said: list[str]
    after_tool: bool
    size: int

    def problem(self) -> str:
        """Why the request is refused; empty where it is not."""

    def error(self, status: int, message: str) -> dict[str, Any]: ...
    def begin(self) -> Iterator[str]: ...
    def open(self) -> Iterator[str]:
        """The start of a text that has no word yet, where the wire announces one."""

    def think(self, text: str) -> Iterator[str]: ...
    def word(self, text: str) -> Iterator[str]: ...
    def call(self, name: str, arguments: str, call_id: str) -> Iterator[str]: ...
    def broken(self, message: str) -> Iterator[str]: ...
    def end(self, finish: str, text: str) -> Iterator[str]: ...


class Chat:
    """Chat Completions."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request, self._calls = request, 0
        messages = request["messages"]
        self.said = [m["content"] for m in messages if m["role"] == "user"]
        self.prompt = self.said[-1] if self.said else ""
        self.after_tool = messages[-1]["role"] == "tool"
        self.size = len(messages)

    def problem(self) -> str:
        return ""

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message}}

    def begin(self) -> Iterator[str]:
        yield _data({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})

    def open(self) -> Iterator[str]:
        yield from ()

    def think(self, text: str) -> Iterator[str]:
        yield self._delta({"reasoning_content": text})

    def word(self, text: str) -> Iterator[str]:
        yield self._delta({"content": text})

    def call(self, name: str, arguments: str, call_id: str) -> Iterator[str]:
        index, self._calls = self._calls, self._calls + 1
        function = {"name": name, "arguments": ""}
        yield self._delta({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})
        for part in _halves(arguments):
            yield self._delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def broken(self, message: str) -> Iterator[str]:
        yield _data({"error": {"message": message, "type": "server_error"}})

    def end(self, finish: str, text: str) -> Iterator[str]:
        reasons = {"stop": "stop", "calls": "tool_calls", "length": "length", "refuse": "content_filter"}
        yield self._delta({}, reasons[finish])
        prompt = len(json.dumps(self._request["messages"])) // 4
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": max(1, len(text) // 4),
            "prompt_tokens_details": {"cached_tokens": max(0, prompt - 40)},
        }
        yield _data({"choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> str:
        return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


class Messages:
    """The Messages API."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request, self._blocks, self._text_open = request, 0, False
        messages = request["messages"]
        self.said = [m["content"] for m in messages if m["role"] == "user" and isinstance(m["content"], str)]
        self.prompt = self.said[-1] if self.said else ""
        self.after_tool = isinstance(messages[-1]["content"], list)
        self.size = len(messages)

    def problem(self) -> str:
        return next(_problems(self._request), "")

    def error(self, status: int, message: str) -> dict[str, Any]:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "overloaded_error" if status == 529 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}

    def begin(self) -> Iterator[str]:
        size = len(json.dumps(self._request["messages"])) // 4
        usage = {"input_tokens": min(size, 40), "cache_read_input_tokens": max(0, size - 40)}
        usage |= {"cache_creation_input_tokens": 7, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
        yield _event("message_start", message=message)
        yield _event("ping")

    def think(self, text: str) -> Iterator[str]:
        yield from self._block({"type": "thinking", "thinking": "", "signature": ""})
        for part in _halves(text):
            yield self._delta(type="thinking_delta", thinking=part)
        yield self._delta(type="signature_delta", signature=signature(text))
        yield from self._close()

    def open(self) -> Iterator[str]:
        if not self._text_open:
            yield from self._block({"type": "text", "text": ""})
            self._text_open = True

    def word(self, text: str) -> Iterator[str]:
        yield from self.open()
        yield self._delta(type="text_delta", text=text)

    def call(self, name: str, arguments: str, call_id: str) -> Iterator[str]:
        yield from self._block({"type": "tool_use", "id": call_id, "name": name, "input": {}})
        yield self._delta(type="input_json_delta", partial_json="")
        for part in _halves(arguments):
            yield self._delta(type="input_json_delta", partial_json=part)
        yield from self._close()

    def broken(self, message: str) -> Iterator[str]:
        yield _event("error", error={"type": "overloaded_error", "message": message})

    def end(self, finish: str, text: str) -> Iterator[str]:
        if self._text_open:
            yield from self._close()
        reasons = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens", "refuse": "refusal"}
        usage = {"output_tokens": max(1, len(text) // 4)}
        yield _event("message_delta", delta={"stop_reason": reasons[finish], "stop_sequence": None}, usage=usage)
        yield _event("message_stop")

    def _block(self, block: dict[str, Any]) -> Iterator[str]:
        yield _event("content_block_start", index=self._blocks, content_block=block)

    def _delta(self, **delta: str) -> str:
        return _event("content_block_delta", index=self._blocks, delta=delta)

    def _close(self) -> Iterator[str]:
        yield _event("content_block_stop", index=self._blocks)
        self._blocks += 1


def signature(thinking: str) -> str:
    """How the scripted Messages server signs its thinking."""
    return "sig-" + hashlib.sha256(thinking.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _problems(request: dict[str, Any]) -> Iterator[str]:
    """What the real server refuses, in about its words."""
    if not isinstance(request.get("max_tokens"), int) or request["max_tokens"] < 1:
        yield "max_tokens: Field required"
    if json.dumps(request).count('"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."
    if any(not block["text"].strip() for block in request.get("system", [])):
        yield "system: text content blocks must contain non-whitespace text"
    messages = request["messages"]
    if not messages or messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    elif messages[-1]["role"] != "user":
        yield "This model does not support assistant message prefill."
    seen: set[str] = set()
    for role, blocks, following in _turns(messages):
        yield from _block_problems(role, blocks, seen)
        called = [b["id"] for b in blocks if b["type"] == "tool_use"]
        answered = [b["tool_use_id"] for b in following if b["type"] == "tool_result"]
        if role == "assistant" and sorted(called) != sorted(answered):
            yield "`tool_use` ids were found without `tool_result` blocks immediately after"
        if role == "user" and [b["type"] == "tool_result" for b in blocks] != sorted(
            (b["type"] == "tool_result" for b in blocks), reverse=True
        ):
            yield "tool_result blocks must come first"
    if messages and _blocks_of(messages[0])[0]["type"] == "tool_result":
        yield "unexpected `tool_use_id` found in `tool_result` blocks"


def _turns(messages: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """`(role, blocks, blocks of the next turn)`; consecutive messages of one role are one turn."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        if not turns or turns[-1][0] != message["role"]:
            turns.append((message["role"], []))
        turns[-1][1].extend(_blocks_of(message))
    for k, (role, blocks) in enumerate(turns):
        yield role, blocks, turns[k + 1][1] if k + 1 < len(turns) else []


def _blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block_problems(role: str, blocks: list[dict[str, Any]], seen: set[str]) -> Iterator[str]:
    if not blocks:
        yield f"{role} messages must have non-empty content"
    texts = [b["text"] for b in blocks if b["type"] == "text"]
    if "" in texts or (texts and len(texts) == len(blocks) and not "".join(texts).strip()):
        yield "messages: text content blocks must be non-empty"
    if blocks and blocks[-1]["type"] == "thinking":
        yield "The final block in an assistant message cannot be `thinking`."
    for block in blocks:
        if block["type"] == "thinking" and block["signature"] != signature(block["thinking"]):
            yield "Invalid `signature` in `thinking` block"
        if block["type"] == "tool_use":
            if block["id"] in seen:
                yield "`tool_use` ids must be unique"
            if not _ID.fullmatch(block["id"]) or not _ID.fullmatch(block["name"]):
                yield "String should match pattern '^[a-zA-Z0-9_-]+$'"
            if not isinstance(block["input"], dict):
                yield "tool_use.input: Input should be a valid dictionary"
            seen.add(block["id"])


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\n" + _data({"type": kind, **fields})


def _data(payload: dict[str, Any]) -> str:
    return "data: " + json.dumps(payload) + "\n\n"
