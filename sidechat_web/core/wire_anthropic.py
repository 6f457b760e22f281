"""The Messages request body as a pure function of the folded header and the derived messages.

`messages` comes last and only ever grows at its end while the header stays, so a request extends the one
before it byte by byte up to the closing brackets. Whatever history a session has, also one that other
providers' models made, becomes one that this wire accepts: see docs/decisions/0009-messages.md.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from . import jsontext
from .events import Block, Json, Message, blocks_of, joined, text_of
from .wire_openai import NO_OUTPUT, check_effort, refuse_images

BLANK: Final = "(empty message)"
NO_RESULT: Final = "(no result was recorded)"
OPENING: Final = "(the conversation starts with an answer)"
ORPHAN: Final = "[Result of a tool call that is no longer in this conversation]\n"
INVALID_JSON: Final = "INVALID_JSON"  # the vendor's own advice for arguments that are no JSON object

_CACHED: Final = {"type": "ephemeral"}
_BUDGETS: Final = {
    "low": 4_096,
    "high": 10_000,
    "max": 16_000,
}  # effort → thinking tokens, where a model takes a budget
_UNTHINKING: Final = re.compile(r"claude-(3-5-|3-[a-z]|2|instant)")
_BUDGETED: Final = re.compile(r"claude-(3-7-|(opus|sonnet|haiku)-4(-[015])?(-\d{8}|-latest)?$)")
_ROOM: Final = (
    (re.compile(r"claude-3-5-"), 8_192),
    (_UNTHINKING, 4_096),
    (_BUDGETED, 16_000),
    (re.compile(""), 32_000),
)
_FOREIGN_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_-]")


class Verbatim(dict[str, Any]):
    """A JSON object that is sent as the text that it was written as."""

    def __init__(self, text: str, parsed: dict[str, Any]) -> None:
        super().__init__(parsed)
        self.text = text


def body(header: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any]:
    """The request body, keys in wire order.

    Raises WireError: `unsupported_content` for an image, `unsupported_reasoning_effort` for an effort
    other than off, low, high and max.
    """
    config = header["config"]
    out: dict[str, Any] = {"model": config["model"], **_output(config), "stream": True, "cache_control": _CACHED}
    for key, name in (("temperature", "temperature"), ("stop", "stop_sequences")):
        if config.get(key) is not None:
            out[name] = config[key]
    return out | _static(header) | {"messages": list(_opened(_conversation(config, messages)))}


def encode(request: dict[str, Any]) -> bytes:
    """The bytes that are sent: compact JSON, non-ASCII raw, tool arguments as the model wrote them."""
    return _text(request).encode("utf-8")


def _text(value: Json) -> str:
    if isinstance(value, Verbatim):
        return jsontext.encodable(value.text)
    if isinstance(value, dict):
        return "{" + ",".join(f"{jsontext.dumps(key)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return jsontext.dumps(value)


def _output(config: dict[str, Any]) -> dict[str, Any]:
    """How much may be written, and how the model thinks, which counts as writing."""
    thinking = _thinking(config["model"], config.get("reasoningEffort"))
    budget = thinking.get("thinking", {}).get("budget_tokens", 0)
    room = next(tokens for models, tokens in _ROOM if models.match(config["model"]))
    return {"max_tokens": max(config.get("maxTokens") or room + budget, budget + 1), **thinking}


def _thinking(model: str, effort: str | None) -> dict[str, Any]:
    if effort is not None:
        check_effort(effort)
    if effort is None or _UNTHINKING.match(model):
        return {}
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    if _BUDGETED.match(model):
        return {"thinking": {"type": "enabled", "budget_tokens": _BUDGETS[effort]}}
    return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}


def _static(header: dict[str, Any]) -> dict[str, Any]:
    """System prompt and tools, with one breakpoint at their end: sessions share them that share nothing else."""
    out: dict[str, Any] = {}
    if (system := _string(header.get("system"))).strip():
        out["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
    tools = header.get("tools")
    if tools and isinstance(tools, list):
        out["tools"] = [_tool(tool) for tool in tools]
        if "system" not in out:
            out["tools"][-1]["cache_control"] = _CACHED
    return out


def _tool(tool: Json) -> dict[str, Any]:
    given = tool if isinstance(tool, dict) else {}
    described = {key: given[key] for key in ("name", "description") if key in given}
    return {**described, "input_schema": given.get("parameters") or {"type": "object"}}


def _opened(conversation: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The conversation, which must start with the user."""
    first = next(conversation, None)
    if first is not None:
        if first["role"] == "assistant":
            yield {"role": "user", "content": OPENING}
        yield first
    yield from conversation


def _conversation(config: dict[str, Any], messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    calls = _Calls()
    for is_answer, run in itertools.groupby(messages, key=lambda message: message["role"] == "assistant"):
        if not is_answer:
            yield from _input(list(run), calls)
            continue
        for message in run:
            if content := _answer(config, message, calls):
                yield {"role": "assistant", "content": content}


def _answer(config: dict[str, Any], message: Message, calls: _Calls) -> list[dict[str, Any]]:
    """The blocks of an answer in their order; none where it holds nothing but thinking and white space.

    Thinking goes back only to the model that signed it, and never as the last block.
    """
    refuse_images(message["content"])
    source = message["source"]
    own = (source.get("provider"), source.get("model")) == (config["provider"], config["model"])
    found = (_block(block, own, calls) for block in blocks_of(message["content"]))
    content = [block for block in found if block is not None]
    while content and content[-1]["type"].endswith("thinking"):
        content.pop()
    says = any(block["type"] == "tool_use" or block.get("text", "").strip() for block in content)
    return content if says else []


def _block(block: Block, own: bool, calls: _Calls) -> dict[str, Any] | None:
    """A block of an answer on the wire; None for what cannot stand there: empty text, thinking without its proof."""
    match block.get("type"):
        case "text" if text := _string(block.get("text")):
            return {"type": "text", "text": text}
        case "reasoning" if own and (signature := _string(block.get("signature"))):
            return {"type": "thinking", "thinking": _string(block.get("text")), "signature": signature}
        case "reasoning" if own and (data := _string(block.get("redacted"))):
            return {"type": "redacted_thinking", "data": data}
        case "tool-call":
            name = _fitting(block.get("name"), 128) or "unnamed"
            wire_id = calls.opened(block.get("id"))
            return {"type": "tool_use", "id": wire_id, "name": name, "input": _arguments(block.get("arguments"))}
    return None


def _arguments(text: Json) -> dict[str, Any]:
    """The arguments as the model wrote them; what is no JSON object is shown to it under one key."""
    text = _string(text)
    if not text.strip():
        return {}
    try:
        parsed = jsontext.loads(text)
    except ValueError:
        parsed = None
    return Verbatim(text, parsed) if isinstance(parsed, dict) else {INVALID_JSON: text}


def _input(run: Sequence[Message], calls: _Calls) -> Iterator[dict[str, Any]]:
    """The user-role messages between two answers: first one with every result, then the others as they are."""
    results: list[dict[str, Any]] = []
    texts: list[str] = []
    for message in run:
        refuse_images(message["content"])
        blocks = blocks_of(message["content"], "tool-result")
        for block in blocks:
            output = joined(block.get("content")) or NO_OUTPUT
            wire_id = calls.answered(block.get("toolCallId"))
            if wire_id is None:
                texts.append(ORPHAN + output)
            else:
                results.append(_result(wire_id, output, block.get("isError") is True))
        if not blocks or text_of(message):
            texts.append(text_of(message))
    results += [_result(wire_id, NO_RESULT, True) for wire_id in calls.left()]
    if results:
        yield {"role": "user", "content": results}
    for text in texts:
        yield {"role": "user", "content": text if text.strip() else BLANK}


def _result(wire_id: str, output: str, is_error: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id, "content": output}
    return {**out, "is_error": True} if is_error else out


class _Calls:
    """Ids of tool calls as the wire wants them: of its alphabet and unique in the whole conversation.

    An id that fits already stays; one that comes again gets a number. Depends on what came before only.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._open: list[tuple[Json, str]] = []

    def opened(self, call_id: Json) -> str:
        base = wire_id = _fitting(call_id, 56) or "call"
        for number in itertools.count(2):
            if wire_id not in self._used:
                break
            wire_id = f"{base}_{number}"
        self._used.add(wire_id)
        self._open.append((call_id, wire_id))
        return wire_id

    def answered(self, call_id: Json) -> str | None:
        """The wire's id of an open call, which is open no longer; None where there is no such call."""
        for entry in self._open:
            if entry[0] == call_id:
                self._open.remove(entry)
                return entry[1]
        return None

    def left(self) -> list[str]:
        """The calls that nothing answered."""
        left, self._open = [wire_id for _, wire_id in self._open], []
        return left


def _fitting(name: Json, length: int) -> str:
    return _FOREIGN_CHARACTER.sub("_", _string(name))[:length]


def _string(value: Json) -> str:
    return value if isinstance(value, str) else ""
