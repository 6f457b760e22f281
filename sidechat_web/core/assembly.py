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
        """Take one chunk in; what is no chunk of the format changes nothing."""
        kind, index = chunk.get("type"), chunk.get("index")
        if kind == "usage":
            self.usage = chunk.get("usage")
        elif kind == "finish":
            self.finish = chunk.get("reason")
        elif not isinstance(index, int):
            return
        elif kind == "block-end" and isinstance(chunk.get("block"), dict):
            self._blocks[index] = chunk["block"]
            self._frozen.add(index)
        elif kind == "block-start":
            self._open(index, _EMPTY.get(str(chunk.get("blockType")), {}))
        elif kind == "tool-call-delta":
            self._extend(index, self._call(index, chunk), chunk.get("argumentsDelta"))
        elif kind in ("text-delta", "reasoning-delta"):
            self._extend(index, {"type": kind.removesuffix("-delta")}, chunk.get("text"))

    def blocks(self) -> list[Block]:
        """In first-seen order; a `max-tokens` finish drops every tool call."""
        whole = [self._whole(index) for index in self._blocks]
        if self.finish and self.finish.get("kind") == "max-tokens":
            return [b for b in whole if b.get("type") != "tool-call"]
        return whole

    def delivered(self) -> list[Block]:
        """What an interrupted message keeps: blocks of text and reasoning that are not blank, no tool calls."""
        kept = [b for b in map(self._whole, self._blocks) if b.get("type") in ("text", "reasoning")]
        return [b for b in kept if str(b.get("text", "")).strip()]

    def _call(self, index: int, chunk: dict[str, Any]) -> Block:
        block = self._open(index, {"type": "tool-call", "id": "", "name": ""})
        if index not in self._frozen:
            block.update({key: chunk[key] for key in ("id", "name") if chunk.get(key)})
        return block

    def _open(self, index: int, empty: Block) -> Block:
        self._parts.setdefault(index, [])
        return self._blocks.setdefault(index, dict(empty))

    def _extend(self, index: int, empty: Block, text: Any) -> None:
        self._open(index, empty)
        if isinstance(text, str):
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
