"""A conversation that another program recorded in its own way, told anew as events of our log.

Whatever order the source has, the events nest as ours do: a step holds one answer and the results of its
calls, every call has exactly one result, and nothing else stands between a call and its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import MAX_SAFE_INTEGER, Block, Draft, Event, Message, Replace
from sidechat_web.core.repair import OUTCOME_UNKNOWN
from sidechat_web.core.surface import Nodes

COMPLETED: Final = {"kind": "completed"}
INTERRUPTED: Final = {"kind": "interrupted"}
STOPPED: Final = {"kind": "aborted", "reason": {"kind": "user"}}
_UNKNOWN: Final = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
_DELTAS: Final = {"text": ("text-delta", "text"), "reasoning": ("reasoning-delta", "text")}


@dataclass(slots=True)
class _Answer:
    """An answer whose blocks are still coming; `replaces` is an earlier part of it that was logged already."""

    id: str
    key: str
    model: str
    blocks: list[Block] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    replaces: int | None = None


@dataclass(slots=True)
class _Call:
    step: int
    seq: int


class Retelling:
    """A log in the making. Every method appends; `take` hands out what was appended since the last time.

    `streamed` also logs each block of an answer as it comes, as chunks: it can be seen before the answer is whole.
    """

    def __init__(self, provider: str, *, streamed: bool, time: int = 0) -> None:
        self.system: str | None = None
        self.tools: list[dict[str, Any]] = []
        self.provider = provider
        self.turn = 0
        self.late_results = 0
        self._streamed = streamed
        self._now = self._time = time
        self._events: list[Event] = []
        self._next_seq = 0
        self._nodes = Nodes()
        self._open = False
        self._step = 0
        self._answered = False  # the open step has its answer
        self._answer: _Answer | None = None
        self._last: _Answer | None = None  # the answer of the open step, once logged
        self._last_seq = 0
        self._calls: dict[str, _Call] = {}
        self._held: list[Draft] = []  # what waits until every call has its result
        self._header: dict[str, Any] = {}
        self._turn_starts: list[int] = []

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    @property
    def at(self) -> int:
        """How many events there are so far."""
        return self._next_seq

    @property
    def open(self) -> bool:
        return self._open

    @property
    def looks_done(self) -> bool:
        """Whether the open turn's last word is an answer that calls no tool."""
        last = self._answer or self._last
        return self._open and not self._calls and last is not None and not _calls_of(last.blocks)

    @property
    def goes_on(self) -> bool:
        """Whether the open turn's model is to speak next: it was asked, or all its calls have their results."""
        if not self._open or self._answer is not None or self._calls:
            return False
        return self._last is None or _calls_of(self._last.blocks) != []

    def at_time(self, time: int | None) -> None:
        """The time of what is told next. What it ends without saying so ended at the time before; none goes back."""
        if time is not None:
            self._now = max(self._now, min(time, MAX_SAFE_INTEGER))

    # -- what was said ---------------------------------------------------------------------------

    def prompt(self, message_id: str, content: list[Block]) -> None:
        """The user's message that starts a turn; one that is still open ends here."""
        self.end_turn(None)
        self._time = self._now
        self._start_turn()
        self._add(ev.user_message(message_id, content))

    def steer(self, message_id: str, content: list[Block]) -> None:
        """The user's message into the open turn; where none is open it starts one."""
        if not self._open:
            return self.prompt(message_id, content)
        self._say(ev.user_message(message_id, content))

    def context(self, message_id: str, content: list[Block], source: dict[str, Any]) -> None:
        """What a program put in front of the model."""
        draft = ev.context_message(message_id, "", {"kind": "plugin", **source})
        self._say(Draft(draft.type, {**draft.data, "content": content}, draft.surface_op))

    def block(self, key: str, message_id: str, model: str, block: Block) -> None:
        """The next block of the answer `key`; another key begins another answer."""
        answer = self._answer
        if answer is None or answer.key != key:
            answer = self._begin(key, message_id, model)
        self._time = self._now
        if block["type"] == "tool-call":
            block = {**block, "id": self._fresh_call(answer, block["id"])}
        if self._streamed:
            self._add(ev.chunk(self.turn, self._step, _delta(len(answer.blocks), block)))
        answer.blocks.append(block)

    def usage(self, usage: dict[str, int]) -> None:
        """What the request cost whose answer is coming."""
        if self._answer is not None:
            self._answer.usage = usage

    def end_answer(self) -> None:
        """The answer is whole: it is logged, and its calls as started."""
        answer, self._answer = self._answer, None
        if answer is None or not answer.blocks:
            return
        source = {"kind": "model", "provider": self.provider, "model": answer.model}
        message: Message = {"id": answer.id, "role": "assistant", "content": answer.blocks, "source": source}
        at = answer.replaces
        draft = ev.assistant_message(self.turn, self._step, message, answer.usage if at is None else None)
        if at is not None:
            draft = Draft(draft.type, draft.data, Replace(at, at), (at,))
        said = self._add(draft)
        self._last, self._last_seq, self._answered = answer, said.seq, True
        for call in _calls_of(answer.blocks):
            if call["id"] not in self._calls:
                self._call(call)
        self._release()

    def result(self, message_id: str, call_id: str, content: list[Block], *, is_error: bool = False) -> None:
        """A call's result; one that no call waits for is counted in `late_results`."""
        self.end_answer()
        self._time = self._now
        call = self._calls.pop(call_id, None)
        if call is None:
            self.late_results += 1
            return
        draft = ev.tool_result(self.turn, call.step, call_id, message_id, "", call_seq=call.seq, is_error=is_error)
        draft.data["message"]["content"][0]["content"] = content
        self._add(draft)
        self._release()

    # -- turns -----------------------------------------------------------------------------------

    def end_turn(self, reason: dict[str, Any] | None) -> None:
        """End the open turn, if there is one; without a reason, as completed where it looks so."""
        self.end_answer()
        if not self._open:
            return
        if reason is None:
            reason = COMPLETED if self.looks_done else INTERRUPTED
        else:
            self._time = self._now
        self._answer_calls()
        if self._step:
            self._add(ev.step_end(self.turn, self._step))
        self._add(ev.turn_end(self.turn, reason))
        self._open, self._step, self._answered, self._last = False, 0, False, None

    def settle(self) -> None:
        """Nothing more came: the answer is whole, and a turn that looks done has ended."""
        self.end_answer()
        if self.looks_done:
            self.end_turn(None)

    def rewind(self, turn: int, message_id: str, text: str, source: dict[str, Any]) -> bool:
        """Go back to the end of turn `turn`: `text` stands for what came after it. False where nothing did."""
        self.end_turn(None)
        self._time = self._now
        start = self._turn_starts[turn] if turn < len(self._turn_starts) else self._next_seq
        return self._replace(start, message_id, text, source) is not None

    def compacted(self, compaction_id: str, message_id: str, summary: str) -> None:
        """A summary takes the place of everything before it."""
        self.end_answer()
        self._answer_calls()
        self._time = self._now
        shadowed = list(self._nodes.seqs)
        if not shadowed:
            return self.context(message_id, ev.text_blocks(summary), {"plugin": "compact"})
        turn = self.turn if self._open else None
        mark = {"compactionId": compaction_id}
        self._add(Draft(ev.COMPACTION_START, {**mark, "turn": turn}))
        told = {
            "summary": ev.text_blocks(summary),
            "shadowedRange": {"start": shadowed[0], "end": shadowed[-1]},
            "shadowedSeqs": shadowed,
            "shadowedTokenCount": 0,
            "provider": self.provider,
            "model": self._model,
        }
        self._add(Draft(ev.COMPACTION_SUMMARY, {**mark, **told}))
        self._replace(0, message_id, summary, {"plugin": "compact", **mark}, (self._next_seq - 1,))
        self._add(Draft(ev.COMPACTION_END, {**mark, "turn": turn}))

    def title(self, title: str) -> None:
        if title:
            self._time = self._now
            self._add(ev.session_title(title, [], {"kind": "provider", "provider": self.provider}))

    # -- parts -----------------------------------------------------------------------------------

    @property
    def _model(self) -> str:
        model: str = self._header.get("config", {}).get("model", "unknown")
        return model

    def _start_turn(self) -> None:
        self.turn += 1
        self._turn_starts.append(self._next_seq)
        self._open = True
        self._add(ev.turn_start(self.turn))
        self._start_step()

    def _start_step(self) -> None:
        self._step += 1
        self._answered, self._last = False, None
        self._add(ev.step_start(self.turn, self._step))

    def _begin(self, key: str, message_id: str, model: str) -> _Answer:
        self.end_answer()
        last = self._last
        if last is not None and last.key == key and self._calls:
            self._answer = _Answer(last.id, key, last.model, list(last.blocks), replaces=self._last_seq)
            return self._answer
        if self._answered:
            self._answer_calls()
        self._time = self._now
        self._next_step()
        self._put_header(model)
        self._answer = _Answer(message_id, key, model)
        return self._answer

    def _next_step(self) -> None:
        """A step that has no answer yet, in a turn."""
        if not self._open:
            self._start_turn()
        elif self._answered:
            self._add(ev.step_end(self.turn, self._step))
            self._start_step()

    def _put_header(self, model: str) -> None:
        header: dict[str, Any] = {"config": {"provider": self.provider, "model": model}}
        if self.system:
            header["system"] = self.system
        if self.tools:
            header["tools"] = self.tools
        if header != self._header:
            self._add(ev.request_header(header, "change" if self._header else "initial"))
            self._header = header

    def _fresh_call(self, answer: _Answer, call_id: str) -> str:
        """The id, or one like it where a call of this step has it already."""
        taken = {call["id"] for call in _calls_of(answer.blocks)} | self._calls.keys()
        fresh, n = call_id, 2
        while fresh in taken:
            fresh, n = f"{call_id}-{n}", n + 1
        return fresh

    def _call(self, call: Block) -> None:
        data = {"turn": self.turn, "step": self._step, "callId": call["id"]}
        started = self._add(Draft(ev.TOOL_CALL, {**data, "name": call["name"], "arguments": call["arguments"]}))
        self._calls[call["id"]] = _Call(self._step, started.seq)

    def _answer_calls(self) -> None:
        """Give every open call a result that says that its outcome is unknown."""
        for call_id, call in self._calls.items():
            message_id = f"interrupted-tool-result-{call_id}-{self._next_seq}"
            self._add(
                ev.tool_result(
                    self.turn,
                    call.step,
                    call_id,
                    message_id,
                    OUTCOME_UNKNOWN,
                    call_seq=call.seq,
                    is_error=True,
                    error=_UNKNOWN,
                )
            )
        self._calls = {}
        self._release()

    def _say(self, draft: Draft) -> None:
        """Log a message that is neither answer nor result, as soon as it parts no call from its result."""
        if self._calls or self._answer is not None:
            self._held.append(draft)
        else:
            self._time = self._now
            self._add(draft)

    def _release(self) -> None:
        if not self._calls:
            held, self._held = self._held, []
            for draft in held:
                self._add(draft)

    def _replace(
        self, start: int, message_id: str, text: str, source: dict[str, Any], sources: Sequence[int] = ()
    ) -> Event | None:
        """Put one context message in the place of all surface nodes from the event `start` on."""
        seqs = self._nodes.seqs
        cut = seqs[next((i for i, seq in enumerate(seqs) if seq >= start), len(seqs)) :]
        if not cut:
            return None
        draft = ev.context_message(message_id, text, {"kind": "plugin", **source})
        cited = (cut[0], *sources, *cut[1:])
        return self._add(Draft(draft.type, draft.data, Replace(cut[0], cut[-1]), cited))

    def _add(self, draft: Draft) -> Event:
        event = draft.at(self._next_seq, self._time)
        self._next_seq += 1
        self._nodes.apply(event)
        self._events.append(event)
        return event


def _calls_of(blocks: Sequence[Block]) -> list[Block]:
    return [block for block in blocks if block["type"] == "tool-call"]


def _delta(index: int, block: Block) -> dict[str, Any]:
    """A whole block as one stream chunk."""
    if block["type"] == "tool-call":
        call = {"id": block["id"], "name": block["name"], "argumentsDelta": block["arguments"]}
        return {"type": "tool-call-delta", "index": index, **call}
    kind, key = _DELTAS[block["type"]]
    return {"type": kind, "index": index, key: block["text"]}
