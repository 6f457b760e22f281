"""The surface: the ordered message-producing events, and the messages that a model sees.

Both folds take events in seq order, at O(1) for an append. `Nodes` knows only where events stand,
in constant size for each; `Surface` also keeps the events that stand there now. A human-facing
transcript reads the log instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from . import jsontext
from .errors import RecordError
from .events import (
    ASSISTANT_MESSAGE,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    SURFACE_TYPES,
    TOOL_RESULT,
    Event,
    Message,
    Replace,
)


class Nodes:
    """The seqs of the surface in surface order, which is not seq order once something was replaced."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self._frames: dict[int, bytes] = {}  # of each tool result on the surface: what a rewrite must keep
        self._positions: dict[int, int] | None = None  # made when a replacement first needs it

    def copy(self) -> Nodes:
        """A surface that goes its own way from here on."""
        other = Nodes()
        other.seqs, other._frames = list(self.seqs), dict(self._frames)
        return other

    def apply(self, event: Event) -> list[int]:
        """Fold one event in and return the seqs that it cut. Raises RecordError where it does not fit."""
        op = event.surface_op
        if op is None:
            return []
        if event.type not in SURFACE_TYPES:
            raise _misfit(event, f"{event.type} cannot stand on the surface")
        _check_sources(event)
        cut = self._cut(event, op) if isinstance(op, Replace) else []
        if event.type == TOOL_RESULT:
            self._frames[event.seq] = _frame(event.data)
        if not cut:
            self._append(event.seq)
        return cut

    def _append(self, seq: int) -> None:
        if self._positions is not None:
            self._positions[seq] = len(self.seqs)
        self.seqs.append(seq)

    def _cut(self, event: Event, op: Replace) -> list[int]:
        first, last = self._position(event, op.start), self._position(event, op.end)
        if first > last:
            raise _misfit(event, f"replace range {op.start}..{op.end} is reversed on the surface")
        cut = self.seqs[first : last + 1]
        if missing := set(cut) - set(event.source_event_seqs or ()):
            raise _misfit(event, f"sourceEventSeqs lacks replaced nodes {sorted(missing)}")
        if event.type == TOOL_RESULT:
            self._check_rewrite(event, cut)
        self.seqs[first : last + 1] = [event.seq]
        self._moved(cut, event.seq, first)
        return cut

    def _position(self, event: Event, seq: int) -> int:
        if self._positions is None:
            self._positions = {node: position for position, node in enumerate(self.seqs)}
        if seq not in self._positions:
            raise _misfit(event, f"{seq} is not a surface node")
        return self._positions[seq]

    def _moved(self, cut: list[int], seq: int, position: int) -> None:
        for node in cut:
            self._frames.pop(node, None)
        if len(cut) == 1 and self._positions is not None:
            del self._positions[cut[0]]
            self._positions[seq] = position
        else:
            self._positions = None

    def _check_rewrite(self, event: Event, cut: list[int]) -> None:
        if len(cut) != 1 or self._frames.get(cut[0]) != _frame(event.data):
            raise _misfit(event, "a tool/result may only rewrite the content of one tool/result")


class Surface:
    """The surface with its events, the folded request header and the last request context."""

    def __init__(self) -> None:
        self.header: dict[str, Any] | None = None
        self.context: dict[str, Any] | None = None
        self._nodes = Nodes()
        self._events: dict[int, Event] = {}

    @classmethod
    def of(cls, events: Iterable[Event]) -> Surface:
        surface = cls()
        for event in events:
            surface.apply(event)
        return surface

    def copy(self) -> Surface:
        """A surface that goes its own way from here on; the events are shared."""
        other = Surface()
        other.header, other.context = self.header, self.context
        other._nodes, other._events = self._nodes.copy(), dict(self._events)
        return other

    @property
    def nodes(self) -> list[int]:
        """The seqs on the surface, in surface order."""
        return self._nodes.seqs

    def apply(self, event: Event) -> None:
        """Fold one event in. Raises RecordError where its `surfaceOp` does not fit the surface."""
        if event.type == REQUEST_HEADER:
            self.header = canonical_header(event.data["header"])
        elif event.type == REQUEST_CONTEXT:
            self.context = event.data
        if event.surface_op is None:
            return
        for seq in self._nodes.apply(event):
            del self._events[seq]
        self._events[event.seq] = event

    def event(self, seq: int) -> Event:
        """The event of a current node. Raises KeyError."""
        return self._events[seq]

    def messages(self) -> list[Message]:
        """What a model would see now, in order."""
        derived_all = (derived(self._events[seq]) for seq in self.nodes)
        return [message for message in derived_all if message is not None]


def derived(event: Event) -> Message | None:
    """The message that a surface node projects to; None for an assistant message with no content."""
    message = event.message
    if event.type == ASSISTANT_MESSAGE and message is not None and not message["content"]:
        return None
    return message


def canonical_header(header: dict[str, Any]) -> dict[str, Any]:
    """The parts of a header that make a request, empty ones left out, so that equal requests have equal headers."""
    given = header.get("adapterDefaults")
    defaults = {k: v for k, v in given.items() if v is True} if isinstance(given, dict) else {}
    parts = {"adapterDefaults": defaults, "system": header.get("system"), "tools": header.get("tools")}
    return {"config": header["config"], **{key: value for key, value in parts.items() if value}}


def _check_sources(event: Event) -> None:
    sources = event.source_event_seqs
    if sources is None:
        return
    if not sources and event.type != ASSISTANT_MESSAGE:
        raise _misfit(event, "sourceEventSeqs may be empty on assistant/message only")
    if len(set(sources)) != len(sources):
        raise _misfit(event, "sourceEventSeqs has duplicates")
    if any(source >= event.seq for source in sources):
        raise _misfit(event, "sourceEventSeqs must name earlier events")


def _frame(data: dict[str, Any]) -> bytes:
    """A digest of a tool result without the content of its block: what a rewrite must keep."""
    message = data["message"]
    block = {k: v for k, v in message["content"][0].items() if k != "content"}
    text = jsontext.canonical({**data, "message": {**message, "content": [block]}})
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _misfit(event: Event, reason: str) -> RecordError:
    return RecordError(f"event {event.seq}: {reason}")
