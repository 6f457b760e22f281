"""How the turns, steps and tool calls of a log that was written here must nest."""

from __future__ import annotations

from collections.abc import Iterator

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event, Json, blocks_of
from sidechat_web.core.head import Head

_IN_STEP = frozenset({ev.STEP_END, ev.ASSISTANT_CHUNK, ev.ASSISTANT_MESSAGE, ev.TOOL_CALL, ev.TOOL_RESULT})
_IN_TURN = frozenset({ev.TURN_END, ev.STEP_START, *_IN_STEP})


class Turns:
    """The open step and its calls. `faults` judges the next event, `observe` then takes it in."""

    def __init__(self) -> None:
        self._step: Json = None
        self._last_step = 0
        self._calls: dict[str, bool] = {}  # unanswered call ids; whether each has started

    def faults(self, event: Event, head: Head) -> Iterator[tuple[str, str]]:
        """`(rule, reason)` for everything that is wrong with `event` after `head`."""
        kind = event.type
        if kind == ev.TURN_START:
            if head.is_open:
                yield "turn", f"turn {head.open_turn} is still open"
            if event.turn != head.last_turn + 1:
                yield "turn", f"turn {event.turn} follows turn {head.last_turn}"
        elif kind in _IN_TURN and self._is_append(event):
            if event.turn != head.open_turn:
                yield "turn", f"{kind} of turn {event.turn} while the open turn is {head.open_turn}"
            yield from self._step_faults(event)

    def observe(self, event: Event) -> None:
        data = event.data if isinstance(event.data, dict) else {}
        match event.type:
            case ev.TURN_START | ev.TURN_END:
                self._step, self._last_step, self._calls = None, 0, {}
            case ev.STEP_START:
                self._step = data.get("step")
                self._last_step = self._step if ev.safe_integer(self._step) else 0
            case ev.STEP_END:
                self._step, self._calls = None, {}
            case ev.ASSISTANT_MESSAGE:
                for block in blocks_of(data["message"]["content"], "tool-call"):
                    self._calls.setdefault(str(block.get("id")), False)
            case ev.TOOL_CALL:
                self._calls[str(data.get("callId"))] = True
            case ev.TOOL_RESULT:
                self._calls.pop(data["message"]["source"]["callId"], None)

    def _step_faults(self, event: Event) -> Iterator[tuple[str, str]]:
        step = event.data.get("step")
        if event.type == ev.STEP_START:
            if self._step is not None:
                yield "step", f"step {self._step} is still open"
            if step != self._last_step + 1:
                yield "step", f"step {step} follows step {self._last_step}"
        elif event.type in _IN_STEP and step != self._step:
            yield "step", f"{event.type} of step {step} while the open step is {self._step}"
        elif event.type == ev.TURN_END and self._step is not None:
            yield "step", f"the turn ends inside step {self._step}"
        yield from self._call_faults(event)

    def _call_faults(self, event: Event) -> Iterator[tuple[str, str]]:
        if event.type == ev.TOOL_CALL:
            call_id = str(event.data.get("callId"))
            if self._calls.get(call_id) is not False:
                yield "call", f"{call_id} was not asked for, or has started already"
        elif event.type == ev.TOOL_RESULT:
            call_id = event.data["message"]["source"]["callId"]
            if call_id not in self._calls:
                yield "call", f"a result of {call_id}, which is not waiting for one"
        elif event.type in (ev.STEP_END, ev.TURN_END) and self._calls:
            yield "call", f"calls without a result: {', '.join(self._calls)}"

    def _is_append(self, event: Event) -> bool:
        """Whether the event happened here and now: a replacement rewrites one that did."""
        return event.surface_op in (None, "append")
