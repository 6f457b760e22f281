"""Stream chunks in the log's shape, from the pieces of a block as they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol

from sidechat_web.core import pairs

Chunk = dict[str, Any]
Kind = Literal["text", "reasoning", "tool-call"]


class Fold(Protocol):
    """A pure fold from a provider's decoded events to chunks; what it does not know it passes over.

    `feed` raises ProviderFailure for an error that the stream itself reports; `end` after the last chunk
    where the answer was refused.
    """

    @property
    def finished(self) -> bool:
        """Whether the provider said why it stopped; a stream that ends before is broken."""

    @property
    def has_calls(self) -> bool:
        """Whether the answer calls tools."""

    def feed(self, payload: dict[str, Any]) -> Iterator[Chunk]: ...

    def end(self) -> Iterator[Chunk]:
        """The closing chunks of a stream that finished."""


class Streaming:
    """One block while it streams; `index` counts an answer's blocks in the order in which they start."""

    def __init__(self, index: int, kind: Kind, *, call_id: str = "", name: str = "") -> None:
        self.index, self.kind, self.call_id, self.name = index, kind, call_id, name
        self.state: dict[str, Any] = {}  # what goes back to the provider with the block, opaque to us
        self._parts: list[str] = []
        self._half = ""  # of a surrogate pair, until the other comes

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def start(self) -> Chunk:
        return {"type": "block-start", "index": self.index, "blockType": self.kind}

    def delta(self, text: str) -> Iterator[Chunk]:
        """The chunk of one more piece; the first of a tool call also carries its name."""
        text, self._half = pairs.joined(self._half + text)
        if text or not self._half:
            yield self._delta(text)

    def end(self) -> Iterator[Chunk]:
        if self._half:
            yield self._delta(self._half)
        yield {"type": "block-end", "index": self.index, "block": self.block()}

    def _delta(self, text: str) -> Chunk:
        first = not self._parts
        self._parts.append(text)
        if self.kind != "tool-call":
            return {"type": f"{self.kind}-delta", "index": self.index, "text": text}
        named = {"name": self.name} if first else {}
        return {
            "type": "tool-call-delta",
            "index": self.index,
            "id": self.call_id,
            **named,
            "argumentsDelta": text,
        }

    def block(self) -> dict[str, Any]:
        if self.kind == "tool-call":
            call = {"type": "tool-call", "id": self.call_id, "name": self.name, "arguments": self.text}
            return {**call, **self.state}
        return {"type": self.kind, "text": self.text, **self.state}


def record(value: Any) -> dict[str, Any]:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def string(value: Any) -> str:
    """`value` where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """`value` where it is a positive whole number, else 0."""
    return value if type(value) is int and value > 0 else 0
