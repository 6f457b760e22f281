"""Blocks of an assistant message from its stream chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .events import Block


class Assembly:
    """A fold over stream chunks. `block-end` is authoritative; without it, the deltas joined."""

    def __init__(self) -> None:
        self.usage: dict[str, int] | None = None
        self.finish: dict[str, Any] | None = None
        self._blocks: dict[int, Block] = {}
        self._parts: dict[int, list[str]] = {}
        self._frozen: set[int] = set()

    @classmethod
    def of(cls, chunks: Iterable[dict[str, Any]]) -> Assembly:
        assembly = cls()
        for chunk in chunks:
            assembly.add(chunk)
        return assembly

    def add(self, chunk: dict[str, Any]) -> None:
        kind = chunk["type"]
        if kind == "usage":
            self.usage = chunk["usage"]
        elif kind == "finish":
            self.finish = chunk["reason"]
        elif kind == "block-end":
            self._blocks[chunk["index"]] = chunk["block"]
            self._frozen.add(chunk["index"])
        elif kind == "block-start":
            self._open(chunk["index"], _EMPTY.get(chunk["blockType"], {}))
        elif kind == "tool-call-delta":
            block = self._open(chunk["index"], {"type": "tool-call", "id": chunk["id"], "name": ""})
            block["id"] = chunk["id"]
            if chunk.get("name"):
                block["name"] = chunk["name"]
            self._extend(chunk["index"], chunk["argumentsDelta"])
        elif kind in ("text-delta", "reasoning-delta"):
            self._open(chunk["index"], {"type": kind.removesuffix("-delta")})
            self._extend(chunk["index"], chunk["text"])

    def blocks(self) -> list[Block]:
        """In first-seen order; a `max-tokens` finish drops every tool call."""
        whole = [self._whole(index) for index in self._blocks]
        if self.finish and self.finish.get("kind") == "max-tokens":
            return [b for b in whole if b.get("type") != "tool-call"]
        return whole

    def delivered(self) -> list[Block]:
        """What an interrupted message keeps: text and reasoning that is not blank, no tool calls."""
        kept = [b for b in (self._whole(i) for i in self._blocks) if b.get("type") in ("text", "reasoning")]
        return [b for b in kept if b["text"]] if any(b["text"].strip() for b in kept) else []

    def _open(self, index: int, empty: Block) -> Block:
        self._parts.setdefault(index, [])
        return self._blocks.setdefault(index, dict(empty))

    def _extend(self, index: int, text: str) -> None:
        if index not in self._frozen:
            self._parts[index].append(text)

    def _whole(self, index: int) -> Block:
        block = self._blocks[index]
        if index in self._frozen:
            return block
        text = "".join(self._parts[index])
        return {**block, "arguments" if block.get("type") == "tool-call" else "text": text}


_EMPTY: dict[str, Block] = {
    "text": {"type": "text"},
    "reasoning": {"type": "reasoning"},
    "tool-call": {"type": "tool-call", "id": "", "name": ""},
}
