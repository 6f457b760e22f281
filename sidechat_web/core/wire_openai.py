"""The Chat Completions request body as a pure function of the folded header and the derived messages.

Equal header and prefix give equal bytes, so a provider's prefix cache holds and any request can be
rebuilt from the log. Key order is fixed; the interleaving of an assistant's blocks is lost here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from . import jsontext
from .errors import SidechatError
from .events import Block, Json, Message, blocks_of, joined, text_of

NO_OUTPUT: Final = "(no output)"
EFFORTS: Final = ("off", "low", "high", "max")


class WireError(SidechatError):
    """A history or header that this wire form cannot say."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one server of this wire wants. The default is the form of the log format.

    `reasoning` is the key under which reasoning goes back, None where it must not; `always_with_calls`
    sends it beside tool calls even when it is empty. `call_state` sends back what came with a tool call
    besides its function. `efforts` maps our reasoning efforts to the server's where it has no thinking switch.
    """

    reasoning: str | None = "reasoning_content"
    always_with_calls: bool = False
    call_state: bool = False
    efforts: Mapping[str, str] = field(default_factory=dict)
    max_tokens: str = "max_tokens"


STANDARD: Final = Dialect()


def body(
    header: dict[str, Any],
    messages: Sequence[Message],
    *,
    cache_key: str | None = None,
    dialect: Dialect = STANDARD,
) -> dict[str, Any]:
    """The request body, keys in wire order.

    Raises WireError: `unsupported_content` for an image, `unsupported_reasoning_effort` for an effort
    other than off, low, high and max.
    """
    config = header["config"]
    out: dict[str, Any] = {
        "model": config["model"],
        "messages": [*_system(header), *(wire for message in messages for wire in _wire(message, dialect))],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if cache_key is not None:
        out["prompt_cache_key"] = cache_key
    out |= _thinking(config.get("reasoningEffort"), dialect)
    tools = header.get("tools")
    if tools and isinstance(tools, list):
        out["tools"] = [_tool(tool) for tool in tools]
    for key, name in (("temperature", "temperature"), ("maxTokens", dialect.max_tokens), ("stop", "stop")):
        if config.get(key) is not None:
            out[name] = config[key]
    return out


def encode(request: dict[str, Any]) -> bytes:
    """The bytes that are sent: compact JSON, non-ASCII raw, lone surrogates escaped."""
    return jsontext.dump_bytes(request)


def _system(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if header.get("system") is not None:
        yield {"role": "system", "content": header["system"]}


def _wire(message: Message, dialect: Dialect) -> Iterator[dict[str, Any]]:
    refuse_images(message["content"])
    if message["role"] == "assistant":
        yield _assistant(message, dialect)
    elif message["role"] == "system":
        yield {"role": "system", "content": text_of(message)}
    else:
        yield from _user(message)


def _assistant(message: Message, dialect: Dialect) -> dict[str, Any]:
    out: dict[str, Any] = {"role": "assistant", "content": text_of(message)}
    calls = blocks_of(message["content"], "tool-call")
    reasoning = joined(message["content"], "reasoning")
    if dialect.reasoning and (reasoning or (calls and dialect.always_with_calls)):
        out[dialect.reasoning] = reasoning
    if calls:
        out["tool_calls"] = [_call(block, dialect) for block in calls]
    return out


def _user(message: Message) -> Iterator[dict[str, Any]]:
    """One user message, unless there are only tool results, then one tool message per result."""
    text = text_of(message)
    results = blocks_of(message["content"], "tool-result")
    if text or not results:
        yield {"role": "user", "content": text}
    for block in results:
        content = joined(block.get("content")) or NO_OUTPUT
        yield {"role": "tool", "tool_call_id": block.get("toolCallId"), "content": content}


def _call(block: Block, dialect: Dialect) -> dict[str, Any]:
    """Arguments go back as the model wrote them, valid JSON or not."""
    function = {"name": block.get("name"), "arguments": block.get("arguments")}
    out = {"id": block.get("id"), "type": "function", "function": function}
    state = block.get("extra_content") if dialect.call_state else None
    return {**out, "extra_content": state} if state else out


def _tool(tool: Any) -> dict[str, Any]:
    """A tool schema; keys that the header's entry lacks stay absent."""
    given = tool if isinstance(tool, dict) else {}
    return {"type": "function", "function": {k: given[k] for k in ("name", "description", "parameters") if k in given}}


def _thinking(effort: str | None, dialect: Dialect) -> dict[str, Any]:
    if effort is None:
        return {}
    check_effort(effort)
    if dialect.efforts:
        return {"reasoning_effort": dialect.efforts[effort]}
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


def check_effort(effort: str) -> None:
    """Raises WireError for an effort that is none of ours."""
    if effort not in EFFORTS:
        known = ", ".join(EFFORTS)
        raise WireError(f"reasoning effort {effort!r}: expected one of {known}", "unsupported_reasoning_effort")


def refuse_images(content: Json) -> None:
    """Raises WireError where the content holds an image, at any depth."""
    if blocks_of(content, "image"):
        raise WireError("an image cannot be sent in the text form of this wire", "unsupported_content")
    for block in blocks_of(content, "tool-result"):
        refuse_images(block.get("content"))
