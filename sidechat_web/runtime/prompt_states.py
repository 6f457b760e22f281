"""Where a request of the embedded server should run, and which saved state it should start from.

Pure bookkeeping: it says which slot to take, which state to restore and which states to forget; the caller
does it. A prompt is a tuple of pieces (tool schemas, then messages); the longer the shared head of two
prompts, the more of the one's evaluated tokens serve the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

Prompt: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class Slot:
    """A sequence of the server's context; `prompt` is what it holds, without the answer that follows it."""

    id: int
    prompt: Prompt = ()
    busy: bool = False
    used: int = 0


@dataclass(slots=True)
class Saved:
    """A copy of a slot, taken when its request had ended. `used` orders by last use."""

    name: str
    prompt: Prompt
    size_bytes: int
    used: int


@dataclass(frozen=True, slots=True)
class Seat:
    """A slot held for one request; `restore` is the saved state to load into it first."""

    slot: int
    prompt: Prompt
    restore: str | None


@dataclass(slots=True)
class PromptStates:
    """Every slot and every saved state. Not thread-safe.

    A slot is copied whenever its request ends, so an idle one can be overwritten without a loss, and a
    fork of a session whose own slot is busy starts from the copy.
    """

    slot_count: int
    budget_bytes: int
    slots: list[Slot] = field(init=False)
    saved: list[Saved] = field(init=False, default_factory=list)
    _clock: int = field(init=False, default=0)
    _names: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.slots = [Slot(i) for i in range(self.slot_count)]

    def take(self, prompt: Prompt) -> Seat | None:
        """The best seat for `prompt`, held until `leave`; None while every slot is busy."""
        idle = [slot for slot in self.slots if not slot.busy]
        if not idle:
            return None
        slot = max(idle, key=lambda s: (shared(s.prompt, prompt), -s.used))
        loses = slot.prompt != prompt[: len(slot.prompt)]
        copy = max(self.saved, key=lambda s: (shared(s.prompt, prompt), s.used), default=None)
        in_slot, in_copy = shared(slot.prompt, prompt), shared(copy.prompt, prompt) if copy else 0
        restore = None
        if copy and in_copy and (in_copy > in_slot or (in_copy == in_slot and loses)):
            slot = min(idle, key=lambda s: s.used)
            restore, copy.used = copy.name, self._tick()
        slot.busy, slot.prompt = True, ()
        return Seat(slot.id, prompt, restore)

    def new_name(self) -> str:
        """A name for a state that is about to be saved; never given twice."""
        self._names += 1
        return f"{self._names}.state"

    def keep(self, seat: Seat, name: str, size_bytes: int) -> list[str]:
        """Note that the seat's slot was saved as `name`; returns the names that are of no more use."""
        new = Saved(name, seat.prompt, size_bytes, self._tick())
        gone = [s for s in self.saved if seat.prompt[: len(s.prompt)] == s.prompt]
        rest = sorted((s for s in self.saved if s not in gone), key=lambda s: s.used)
        while rest and new.size_bytes + sum(s.size_bytes for s in rest) > self.budget_bytes:
            gone.append(rest.pop(0))
        self.saved = [*rest, new]
        return [s.name for s in gone]

    def leave(self, seat: Seat, *, evaluated: bool) -> None:
        """Free the slot, which now holds the seat's prompt if it was evaluated, else nothing known."""
        slot = self.slots[seat.slot]
        slot.busy, slot.prompt, slot.used = False, seat.prompt if evaluated else (), self._tick()

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def shared(one: Prompt, other: Prompt) -> int:
    """How much the two have in common from the start, in characters; whole pieces only."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(len(piece) for piece, _ in equal)
