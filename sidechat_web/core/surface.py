"""The surface: the ordered message-producing events, and the messages that a model sees.

`Surface` is a fold: `apply` each event in seq order, at O(1) for an append. It keeps only what the
model sees now; a human-facing transcript reads the log instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import RecordError
from .events import (
    ASSISTANT_MESSAGE,
    REQUEST_HEADER,
    SURFACE_TYPES,
    TOOL_RESULT,
    Event,
    Message,
    Replace,
)


class Surface:
    """Nodes (event seqs, in surface order) with their events, and the folded request header."""

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.header: dict[str, Any] | None = None
        self._events: dict[int, Event] = {}

    @classmethod
    def of(cls, events: Iterable[Event]) -> Surface:
        surface = cls()
        for event in events:
            surface.apply(event)
        return surface

    def apply(self, event: Event) -> None:
        """Fold one event in. Raises RecordError where its `surfaceOp` does not fit the surface."""
        if event.type == REQUEST_HEADER:
            self.header = canonical_header(event.data["header"])
        if event.surface_op is None:
            return
        if event.type not in SURFACE_TYPES:
            raise RecordError(f"event {event.seq}: {event.type} cannot stand on the surface")
        if isinstance(event.surface_op, Replace):
            self._replace(event, event.surface_op)
        else:
            self.nodes.append(event.seq)
        self._events[event.seq] = event

    def event(self, seq: int) -> Event:
        """The event of a current node. Raises KeyError."""
        return self._events[seq]

    def messages(self) -> list[Message]:
        """What a model would see now, in order."""
        derived_all = (derived(self._events[seq]) for seq in self.nodes)
        return [message for message in derived_all if message is not None]

    def _replace(self, event: Event, op: Replace) -> None:
        first, last = self._position(event, op.start), self._position(event, op.end)
        if first > last:
            raise RecordError(f"event {event.seq}: replace range {op.start}..{op.end} is reversed on the surface")
        cut = self.nodes[first : last + 1]
        missing = set(cut) - set(event.source_event_seqs or ())
        if missing:
            raise RecordError(f"event {event.seq}: sourceEventSeqs lacks replaced nodes {sorted(missing)}")
        if event.type == TOOL_RESULT:
            self._check_tool_rewrite(event, cut)
        self.nodes[first : last + 1] = [event.seq]
        for seq in cut:
            del self._events[seq]

    def _position(self, event: Event, seq: int) -> int:
        try:
            return self.nodes.index(seq)
        except ValueError:
            raise RecordError(f"event {event.seq}: {seq} is not a surface node") from None

    def _check_tool_rewrite(self, event: Event, cut: list[int]) -> None:
        old = self._events[cut[0]]
        if len(cut) != 1 or old.type != TOOL_RESULT or _frame(old.data) != _frame(event.data):
            raise RecordError(f"event {event.seq}: a tool/result may only rewrite the content of one tool/result")


def derived(event: Event) -> Message | None:
    """The message that a surface node projects to; None for an assistant message with no content."""
    message = event.message
    if event.type == ASSISTANT_MESSAGE and message is not None and not message["content"]:
        return None
    return message


def canonical_header(header: dict[str, Any]) -> dict[str, Any]:
    """The header without its empty optional parts, so that equal requests have equal headers."""
    out = dict(header)
    defaults = {k: v for k, v in (out.get("adapterDefaults") or {}).items() if v is True}
    for key, value in (("adapterDefaults", defaults), ("system", out.get("system")), ("tools", out.get("tools"))):
        if value:
            out[key] = value
        else:
            out.pop(key, None)
    return out


def _frame(data: dict[str, Any]) -> dict[str, Any]:
    """A tool result without the content of its block: what a rewrite must keep."""
    message = data["message"]
    block = {k: v for k, v in message["content"][0].items() if k != "content"}
    return {**data, "message": {**message, "content": [block]}}
