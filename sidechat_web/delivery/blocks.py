"""The open turn's streaming blocks, as far as this process knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sidechat_web.core import pairs
from sidechat_web.core.events import ASSISTANT_CHUNK, ASSISTANT_MESSAGE, Event
from sidechat_web.runtime.live import Delta, Kind

Key: TypeAlias = tuple[int, int, int]  # turn, step, block index

_MAX_EARLY: Final = 256
_NO_STEP: Final = 2**31
_TEXT_OF: Final[dict[str, tuple[Kind, str]]] = {
    "text-delta": ("text", "text"),
    "reasoning-delta": ("reasoning", "text"),
    "tool-call-delta": ("tool-args", "argumentsDelta"),
}


@dataclass(slots=True)
class Block:
    """A streaming block: its text in pieces, and pieces that came before their place was reached."""

    kind: Kind
    length: int = 0
    pieces: list[str] = field(default_factory=list)
    early: dict[int, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def extend(self, offset: int, text: str) -> Iterator[tuple[int, str]]:
        """Take a piece where it fits; yields what that added, as `(offset, text)`. Repeats add nothing."""
        if offset > self.length:
            if len(self.early) < _MAX_EARLY:
                self.early[offset] = max(text, self.early.get(offset, ""), key=len)
            return
        yield from self._append(text[self.length - offset :])
        while self.early and (first := min(self.early)) <= self.length:
            yield from self._append(self.early.pop(first)[self.length - first :])

    def _append(self, text: str) -> Iterator[tuple[int, str]]:
        if text:
            offset, self.length = self.length, self.length + len(text)
            self.pieces.append(text)
            yield offset, text


class LiveBlocks:
    """A fold over deltas and chunk events that no loss, repetition or change of order corrupts."""

    def __init__(self) -> None:
        self._blocks: dict[Key, Block] = {}
        self._done = (0, 0)  # the last turn and step whose blocks are in the log as a message, or void

    def __iter__(self) -> Iterator[tuple[Key, Block]]:
        return iter(sorted(self._blocks.items()))

    def __getitem__(self, key: Key) -> Block:
        return self._blocks[key]

    @property
    def gap(self) -> bool:
        """Whether pieces are missing that the log may have."""
        return any(block.early for block in self._blocks.values())

    def apply(self, delta: Delta) -> list[Delta]:
        """What `delta` adds: contiguous pieces, each at its block's length."""
        if (delta.turn, delta.step) <= self._done:
            return []
        block = self._blocks.setdefault((delta.turn, delta.step, delta.index), Block(delta.kind))
        added = block.extend(delta.offset, delta.text)
        return [Delta(delta.turn, delta.step, delta.index, block.kind, at, text) for at, text in added]

    def settle(self, turn: int, step: int, whole: dict[int, str]) -> list[Delta]:
        """Forget a step that the log has as a message; returns the pieces of `whole` that never came."""
        missed = []
        for key, block in list(self):
            if key[:2] == (turn, step):
                text = whole.get(key[2], "")
                if len(text) > block.length and text.startswith(block.text):
                    missed.append(Delta(*key, block.kind, block.length, text[block.length :]))
        self.forget(turn, step)
        return missed

    def forget(self, turn: int, step: int = _NO_STEP) -> None:
        """Drop the blocks up to this step (default: the turn's last) and ignore what still comes of them."""
        self._done = max(self._done, (turn, step))
        self._blocks = {key: block for key, block in self._blocks.items() if key[:2] > self._done}


def streamed(events: Iterable[Event]) -> list[Delta]:
    """The text of blocks that are still open after `events`, each as one piece at offset 0."""
    texts: dict[Key, tuple[Kind, list[str]]] = {}
    for event in events:
        if event.type == ASSISTANT_MESSAGE:
            texts.clear()
        elif event.type == ASSISTANT_CHUNK and (found := _TEXT_OF.get(event.data["chunk"]["type"])):
            chunk = event.data["chunk"]
            key = (event.data["turn"], event.data["step"], chunk["index"])
            texts.setdefault(key, (found[0], []))[1].append(chunk[found[1]])
    return [Delta(*key, kind, 0, pairs.joined("".join(pieces))[0]) for key, (kind, pieces) in texts.items()]


def message_texts(event: Event) -> dict[int, str]:
    """Block index → text of the text and reasoning blocks of an assistant message."""
    blocks = event.data["message"]["content"]
    return {i: b["text"] for i, b in enumerate(blocks) if b.get("type") in ("text", "reasoning")}
