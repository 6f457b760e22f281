"""What a well-formed record is: the envelope, packed rows, messages and request headers.

Each check returns None or what is wrong. Foreign logs are held to these rules before they are
stored, and every stored log can be checked against them again. Where events stand on the surface
is the surface's own rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from .codec import PACKED, is_number
from .events import (
    ASSISTANT_MESSAGE,
    CONTEXT_MESSAGE,
    MAX_SAFE_INTEGER,
    REQUEST_HEADER,
    SURFACE_TYPES,
    TOOL_RESULT,
    USER_MESSAGE,
    Json,
    safe_integer,
)

Reason: TypeAlias = str | None

_NAMES: Final = """
    turn/start turn/end step/start step/end user/message assistant/chunk assistant/message tool/call tool/result
    request/header request/context todo/write session/end-seed
    session/title session/title-llm-request agent/inbox/spliced
    compaction/start compaction/summary compaction/end compaction/prune llm/retry llm/retry-started
    approval/asked approval/decided approval/policy
    agent-preset/selected command/run command/done feedback/record goal/change hook/invoked hook/result
    permission/preset plan/mode sandbox/mode schedule/change subagent/descriptor
    team/member team/message/delivered team/message/queued team/task
    tool-workflow/run-start tool-workflow/agent-start tool-workflow/agent-end tool-workflow/run-end
    tool/code-dispatch-start tool/code-dispatch web/deepseek-search-llm-request
"""
KNOWN_TYPES: Final = frozenset(_NAMES.split())
_KEYS: Final = frozenset({"type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable"})
_ROW_KEYS: Final = {"type", "seq0", "time0", "data"}


def one_of(kind: Json, types: Container[str]) -> TypeGuard[str]:
    """Whether a record's type, which may be any JSON value, is one of `types`."""
    return isinstance(kind, str) and kind in types


def understood(record: Mapping[str, Any]) -> bool:
    """Whether a reader may interpret the log: the type is known, or marked as one to skip."""
    kind = record.get("type")
    return one_of(kind, KNOWN_TYPES) or kind == CONTEXT_MESSAGE or record.get("ignorable") is True


def envelope(record: Mapping[str, Any]) -> Reason:
    """Keys and scalars of one event's envelope, with its surface marks."""
    if unknown := record.keys() - _KEYS:
        return f"unknown envelope key {sorted(unknown)[0]!r}"
    if not isinstance(record.get("type"), str):
        return "type must be a string"
    if not _count(record.get("seq")):
        return "seq must be a non-negative integer"
    if not safe_integer(record.get("time")):
        return "time must be an integer"
    if "data" not in record:
        return "data is missing"
    if "ignorable" in record and record["ignorable"] is not True:
        return "ignorable may only be true"
    return _surface_marks(record)


def payload(kind: str, data: Json) -> Reason:
    """The parts of an event's data that derivation relies on."""
    if kind == REQUEST_HEADER:
        return request_header(data)
    return message(kind, data) if kind in SURFACE_TYPES else None


def message(kind: str, data: Json) -> Reason:
    """The message that an event of a surface type carries."""
    record = data if isinstance(data, dict) else {}
    found = record if kind in (USER_MESSAGE, CONTEXT_MESSAGE) else record.get("message")
    if not isinstance(found, dict) or not _text(found.get("id")):
        return "lacks an identified message"
    role = "assistant" if kind == ASSISTANT_MESSAGE else "user"
    if found.get("role") != role:
        return f"message must have role {role!r}"
    source = found.get("source")
    if not isinstance(source, dict) or not _text(source.get("kind")):
        return "message has no source kind"
    if not isinstance(found.get("content"), list):
        return "message content must be a list"
    if kind == ASSISTANT_MESSAGE and (source["kind"] != "model" or not _model(source)):
        return "message must have a model as its source"
    return _tool_message(found, source) if kind == TOOL_RESULT else None


def request_header(data: Json) -> Reason:
    header = data.get("header") if isinstance(data, dict) else None
    config = header.get("config") if isinstance(header, dict) else None
    if not isinstance(config, dict) or not _model(config):
        return "request/header lacks provider or model"
    if "reasoningEffort" in config and not _text(config["reasoningEffort"]):
        return "reasoningEffort must be a non-empty string"
    assert isinstance(header, dict)
    return _adapter_defaults(header["adapterDefaults"], config) if "adapterDefaults" in header else None


def packed_row(row: Mapping[str, Any]) -> Reason:
    """A storage row that stands for several chunk events."""
    if row.keys() != _ROW_KEYS:
        return "a packed row has exactly type, seq0, time0 and data"
    if not _count(row["seq0"]) or not safe_integer(row["time0"]):
        return "seq0 and time0 must be integers"
    data = row["data"]
    if not isinstance(data, dict):
        return "data must be an object"
    return _run_shape(row["type"], data) or _run_values(row, data)


def latest_time(row: Mapping[str, Any]) -> int:
    """The latest time of a well-formed packed row's members."""
    times: Iterator[int] = itertools.accumulate(row["data"]["dt"], initial=row["time0"])
    return max(times)


def members(row: Mapping[str, Any]) -> int:
    """How many events a well-formed packed row stands for."""
    texts: list[str] = row["data"][PACKED[row["type"]][1]]
    return len(texts)


def _run_shape(kind: str, data: dict[str, Any]) -> Reason:
    texts = PACKED[kind][1]
    expected = {"turn", "step", "index", "dt", texts}
    if kind == "tool-call-chunks":
        expected |= {"id", "name"} if "name" in data else {"id"}
    if data.keys() != expected:
        return f"data of {kind} must have exactly {', '.join(sorted(expected))}"
    if not all(is_number(data[key]) for key in ("turn", "step", "index")):
        return "turn, step and index must be numbers"
    if not all(isinstance(data[key], str) for key in ("id", "name") if key in data):
        return "id and name must be strings"
    return None


def _run_values(row: Mapping[str, Any], data: dict[str, Any]) -> Reason:
    texts, gaps = data[PACKED[row["type"]][1]], data["dt"]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        return "a packed row needs at least one text"
    if not isinstance(gaps, list) or len(gaps) != len(texts) - 1 or not all(safe_integer(gap) for gap in gaps):
        return "dt must hold one integer less than there are texts"
    if row["seq0"] + len(texts) - 1 > MAX_SAFE_INTEGER:
        return "seqs leave the range of integers"
    if not all(safe_integer(time) for time in itertools.accumulate(gaps, initial=row["time0"])):
        return "times leave the range of integers"
    return None


def _surface_marks(record: Mapping[str, Any]) -> Reason:
    if record["type"] not in SURFACE_TYPES:
        marks = record.keys() & {"surfaceOp", "sourceEventSeqs"}
        return f"{record['type']} may not carry {sorted(marks)[0]}" if marks else None
    if "surfaceOp" not in record:
        return f"{record['type']} needs a surfaceOp"
    op = record["surfaceOp"]
    if op != "append" and not _replace(op):
        return "surfaceOp must be 'append' or exactly {op: 'replace', start, end}"
    sources = record.get("sourceEventSeqs", [])
    if not isinstance(sources, list) or not all(_count(source) for source in sources):
        return "sourceEventSeqs must be a list of non-negative integers"
    return None


def _replace(op: Json) -> bool:
    return (
        isinstance(op, dict)
        and op.keys() == {"op", "start", "end"}
        and op["op"] == "replace"
        and _count(op["start"])
        and _count(op["end"])
    )


def _tool_message(found: dict[str, Any], source: dict[str, Any]) -> Reason:
    if source["kind"] != "tool" or not _text(source.get("callId")):
        return "message must have a tool call as its source"
    content = found["content"]
    block = content[0] if len(content) == 1 else None
    if not isinstance(block, dict) or block.get("type") != "tool-result" or not isinstance(block.get("content"), list):
        return "message must hold exactly one tool-result block"
    return None if block.get("toolCallId") == source["callId"] else "message names two different tool calls"


def _adapter_defaults(defaults: Json, config: dict[str, Any]) -> Reason:
    ok = isinstance(defaults, dict) and all(
        key in ("reasoningEffort", "maxTokens") and marker is True and key in config for key, marker in defaults.items()
    )
    return (
        None if ok else "adapterDefaults may mark reasoningEffort and maxTokens, only true, only where config has them"
    )


def _model(value: Mapping[str, Any]) -> bool:
    return _text(value.get("provider")) and _text(value.get("model"))


def _text(value: Json) -> bool:
    return isinstance(value, str) and bool(value)


def _count(value: Json) -> bool:
    return safe_integer(value) and value >= 0
