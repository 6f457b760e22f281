"""Random valid logs: turns with streamed answers, tools, injected context, rewrites and compactions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from sidechat_web.core import events as ev
from sidechat_web.core.events import Draft, Event, Replace
from sidechat_web.core.surface import Surface

# The suite's own runs are short and always the same; `EXAMPLES=2000 pytest …` looks for more.
EXAMPLES = os.environ.get("EXAMPLES")
settings.register_profile("ours", max_examples=int(EXAMPLES or 40), deadline=None, derandomize=not EXAMPLES)
settings.load_profile("ours")

TEXT = st.text(st.characters(codec=None), max_size=12)  # lone surrogates and U+0000 included
MODEL = {"kind": "model", "provider": "acme", "model": "small"}
HEADER = ev.request_header({"config": {"provider": "acme", "model": "small"}, "system": "Be brief."}, "initial")


class Writing:
    """A log in the making; `draw` decides what comes next."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.draw = draw
        self.events: list[Event] = []
        self.surface = Surface()
        self._time = draw(st.integers(0, 2**41))

    def add(self, *drafts: Draft) -> None:
        for draft in drafts:
            self._time += self.draw(st.integers(0, 50))
            event = draft.at(len(self.events), self._time)
            self.surface.apply(event)
            self.events.append(event)

    def turn(self, number: int) -> None:
        self.add(ev.turn_start(number))
        for step in range(1, self.draw(st.integers(0, 3)) + 1):
            self._step(number, step)
        self.add(ev.turn_end(number, {"kind": self.draw(st.sampled_from(["completed", "max-tokens", "blocked"]))}))

    def between(self) -> None:
        """What may stand between turns: notes, titles, a compaction."""
        match self.draw(st.sampled_from(["nothing", "note", "title", "compact"])):
            case "note":
                source = {"kind": "plugin", "plugin": "sidechat"}
                self.add(ev.context_message(self._id("n"), self.draw(TEXT), source))
            case "title":
                self.add(ev.session_title(self.draw(TEXT), [], {"kind": "user"}))
            case "compact" if self.surface.nodes:
                self._compact()

    def _step(self, turn: int, step: int) -> None:
        self.add(ev.step_start(turn, step), ev.user_message(self._id("u"), ev.text_blocks(self.draw(TEXT))))
        if self.surface.header is None:
            self.add(HEADER)
        for kind in self.draw(st.lists(st.sampled_from(["text", "reasoning", "tool-call"]), max_size=12)):
            self.add(ev.chunk(turn, step, self._delta(kind)))
        calls = [f"c{len(self.events)}-{n}" for n in range(self.draw(st.integers(0, 2)))]
        blocks = ev.text_blocks(self.draw(TEXT)) if self.draw(st.booleans()) else []
        blocks += [{"type": "tool-call", "id": call, "name": "look", "arguments": self.draw(TEXT)} for call in calls]
        message = {"id": self._id("a"), "role": "assistant", "content": blocks, "source": MODEL}
        self.add(ev.assistant_message(turn, step, message, {"inputTokens": 1, "outputTokens": 2}))
        for call in calls:
            self.add(Draft(ev.TOOL_CALL, {"turn": turn, "step": step, "callId": call, "name": "look"}))
            self.add(ev.tool_result(turn, step, call, f"r-{call}", self.draw(TEXT), call_seq=len(self.events) - 1))
        self.add(ev.step_end(turn, step))

    def _delta(self, kind: str) -> dict[str, Any]:
        index = self.draw(st.integers(0, 1))
        if kind != "tool-call":
            return {"type": f"{kind}-delta", "index": index, "text": self.draw(TEXT)}
        named = {"name": "look"} if self.draw(st.booleans()) else {}
        return {"type": "tool-call-delta", "index": index, "id": "c", **named, "argumentsDelta": self.draw(TEXT)}

    def _compact(self) -> None:
        nodes = self.surface.nodes
        first = self.draw(st.integers(0, len(nodes) - 1))
        cut = nodes[first : self.draw(st.integers(first, len(nodes) - 1)) + 1]
        draft = ev.user_message(self._id("s"), ev.text_blocks("Summary."), {"kind": "plugin", "plugin": "compact"})
        self.add(Draft(draft.type, draft.data, Replace(cut[0], cut[-1]), tuple(cut)))

    def _id(self, prefix: str) -> str:
        return f"{prefix}{len(self.events)}"


@st.composite
def logs(draw: Callable[..., Any], min_turns: int = 0) -> list[Event]:
    """A log whose turns are all closed."""
    log = Writing(draw)
    for number in range(1, draw(st.integers(min_turns, 4)) + 1):
        log.between()
        log.turn(number)
    log.between()
    return log.events


@st.composite
def crashed(draw: Callable[..., Any]) -> list[Event]:
    """A log that stops anywhere."""
    events = draw(logs(min_turns=1))
    return events[: draw(st.integers(0, len(events)))]
