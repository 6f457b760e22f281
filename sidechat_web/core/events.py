"""Events of a session log as immutable values.

The shapes are those of the log format (`docs/architecture.md`, "The record"): an envelope
`{type, seq, time, data, sourceEventSeqs?, surfaceOp?, ignorable?}`. A `Draft` is an event that
has no place in a log yet; the one writer gives it `seq` and `time`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeGuard

Json: TypeAlias = Any  # a lossless JSON value
Message: TypeAlias = dict[str, Any]  # {id, role, content: Block[], source}
Block: TypeAlias = dict[str, Any]

TURN_START: Final = "turn/start"
TURN_END: Final = "turn/end"
STEP_START: Final = "step/start"
STEP_END: Final = "step/end"
USER_MESSAGE: Final = "user/message"
CONTEXT_MESSAGE: Final = "context/message"
ASSISTANT_CHUNK: Final = "assistant/chunk"
ASSISTANT_MESSAGE: Final = "assistant/message"
TOOL_CALL: Final = "tool/call"
TOOL_RESULT: Final = "tool/result"
REQUEST_HEADER: Final = "request/header"
SESSION_TITLE: Final = "session/title"
COMPACTION_START: Final = "compaction/start"
COMPACTION_SUMMARY: Final = "compaction/summary"
COMPACTION_END: Final = "compaction/end"
APPROVAL_ASKED: Final = "approval/asked"
APPROVAL_DECIDED: Final = "approval/decided"
LLM_RETRY: Final = "llm/retry"

REQUEST_CONTEXT: Final = "request/context"
END_SEED: Final = "session/end-seed"

OWN_PLUGIN: Final = "sidechat"  # the source of context messages that are written here

SURFACE_TYPES: Final = frozenset({USER_MESSAGE, CONTEXT_MESSAGE, ASSISTANT_MESSAGE, TOOL_RESULT})
MAX_SAFE_INTEGER: Final = 2**53 - 1


def safe_integer(value: Json) -> TypeGuard[int]:
    """Whether `value` is an integer that every JSON reader keeps exactly; a bool is none."""
    return type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER


@dataclass(frozen=True, slots=True)
class Replace:
    """Cut the inclusive slice of surface nodes from `start` to `end` (seqs) and stand in its place."""

    start: int
    end: int


SurfaceOp: TypeAlias = Literal["append"] | Replace


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to be appended."""

    type: str
    data: Json
    surface_op: SurfaceOp | None = None
    source_event_seqs: tuple[int, ...] | None = None
    ignorable: bool = False

    def at(self, seq: int, time: int) -> Event:
        return Event(seq, time, self.type, self.data, self.surface_op, self.source_event_seqs, self.ignorable)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a log. `seq` is its 0-based index in the effective log, `time` epoch ms."""

    seq: int
    time: int
    type: str
    data: Json
    surface_op: SurfaceOp | None = None
    source_event_seqs: tuple[int, ...] | None = None
    ignorable: bool = False

    @property
    def on_surface(self) -> bool:
        return self.surface_op is not None

    @property
    def message(self) -> Message | None:
        """The message that this event carries, or None. Not yet projected: see `surface.derived`."""
        if self.type in (USER_MESSAGE, CONTEXT_MESSAGE):
            return self.data  # type: ignore[no-any-return]
        if self.type in (ASSISTANT_MESSAGE, TOOL_RESULT):
            return self.data["message"]  # type: ignore[no-any-return]
        return None

    @property
    def turn(self) -> int | None:
        turn = self.data.get("turn") if isinstance(self.data, dict) else None
        return turn if safe_integer(turn) else None


def text_blocks(text: str) -> list[Block]:
    return [{"type": "text", "text": text}]


def blocks_of(content: Json, kind: str | None = None) -> list[Block]:
    """The blocks in a content list, of one type if `kind` says so; what is no block is left out.

    Logs are validated down to the list, not to its members.
    """
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return blocks if kind is None else [block for block in blocks if block.get("type") == kind]


def joined(content: Json, kind: str = "text") -> str:
    """The texts of all blocks of one type, without a separator."""
    texts = (block.get("text") for block in blocks_of(content, kind))
    return "".join(text for text in texts if isinstance(text, str))


def text_of(message: Mapping[str, Any]) -> str:
    """The text blocks of a message, joined without a separator; other blocks contribute nothing."""
    return joined(message["content"])


def quote_references(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The references of a message's quotes, by number; another program's source may hold anything."""
    source = message.get("source")
    found = source.get("quotes") if isinstance(source, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def turn_start(turn: int) -> Draft:
    return Draft(TURN_START, {"turn": turn})


def turn_end(turn: int, reason: Mapping[str, Any]) -> Draft:
    return Draft(TURN_END, {"turn": turn, "reason": dict(reason)})


def step_start(turn: int, step: int) -> Draft:
    return Draft(STEP_START, {"turn": turn, "step": step})


def step_end(turn: int, step: int) -> Draft:
    return Draft(STEP_END, {"turn": turn, "step": step})


def user_message(message_id: str, content: Sequence[Block], source: Mapping[str, Any] | None = None) -> Draft:
    data = {"content": list(content), "source": dict(source or {"kind": "user"}), "role": "user", "id": message_id}
    return Draft(USER_MESSAGE, data, "append")


def context_message(message_id: str, text: str, source: Mapping[str, Any]) -> Draft:
    """Injected context: `source` is `{kind: "plugin", plugin: NAME, …}`."""
    data = {"id": message_id, "role": "user", "content": text_blocks(text), "source": dict(source)}
    return Draft(CONTEXT_MESSAGE, data, "append")


def assistant_message(
    turn: int,
    step: int,
    message: Message,
    usage: Mapping[str, int] | None = None,
    interrupted: bool = False,
) -> Draft:
    data: dict[str, Any] = {"turn": turn, "step": step, "message": message}
    if usage:
        data["usage"] = dict(usage)
    if interrupted:
        data["interrupted"] = True
    return Draft(ASSISTANT_MESSAGE, data, "append")


def chunk(turn: int, step: int, body: Mapping[str, Any]) -> Draft:
    return Draft(ASSISTANT_CHUNK, {"turn": turn, "step": step, "chunk": dict(body)})


def request_header(header: Mapping[str, Any], reason: Literal["initial", "resume", "change"]) -> Draft:
    return Draft(REQUEST_HEADER, {"header": dict(header), "reason": reason})


def session_title(title: str, message_seqs: Sequence[int], source: Mapping[str, Any]) -> Draft:
    return Draft(SESSION_TITLE, {"title": title, "messageSeqs": list(message_seqs), "source": dict(source)})


def tool_result(
    turn: int,
    step: int,
    call_id: str,
    message_id: str,
    text: str,
    *,
    call_seq: int | None = None,
    is_error: bool = False,
    error: Mapping[str, str] | None = None,
    meta: Json = None,
) -> Draft:
    block: dict[str, Any] = {"type": "tool-result", "toolCallId": call_id}
    if is_error:
        block["isError"] = True
    block["content"] = text_blocks(text)
    message = {"id": message_id, "role": "user", "source": {"kind": "tool", "callId": call_id}, "content": [block]}
    data: dict[str, Any] = {"turn": turn, "step": step, "message": message}
    if error:
        data["error"] = dict(error)
    if meta is not None:
        data["meta"] = meta
    sources = None if call_seq is None else (call_seq,)
    return Draft(TOOL_RESULT, data, "append", sources)
