"""A conversation as plain Chat Completions messages: `{messages, model?, tools?, id?, created?}`, or the bare list.

It has no times, and often no id. Then it is known by how it begins, and which of several conversations
with that beginning it continues is found by comparing them (see importing).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

from sidechat_web.core import codec, jsontext
from sidechat_web.core.errors import LogUnreadable
from sidechat_web.core.events import Block, Json
from sidechat_web.storage.ids import now_ms

from .header import Header
from .incoming import Line, NothingYet
from .plaintext import FrameEnd, Plaintext
from .records import arguments, blocks, count, record, records, string, time_ms
from .retelling import Retelling

PROGRAM: Final = "messages"
MAX_BYTES: Final = 1 << 27
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class ChatMessages:
    """See Incoming. The whole document is held in memory. Raises LogUnreadable where it is none."""

    program = PROGRAM
    header_line = b""
    patience = None
    grows = False
    offset = 0
    length = 0

    def __init__(self, stream: BinaryIO, name: str | None) -> None:
        self.name = name
        document = _document(stream, name)
        given = document if isinstance(document, dict) else {"messages": document}
        self._given, self._messages = given, records(given.get("messages"))
        if len(self._messages) != len(given.get("messages") or []) or not all(map(_is_message, self._messages)):
            raise LogUnreadable("messages must be a list of {role, content}", file=name)
        if not self._messages:
            raise NothingYet("holds no message", file=name)
        self.named = bool(string(given.get("id")))
        self.opening = f"messages-{_digest(_opening(self._messages))}-"
        log_id = string(given.get("id")) or self.opening + _digest(self._messages)
        self._created = time_ms(given.get("created")) or now_ms()
        self.header = Header(log_id, self._created)
        self.recall({})
        self._lost: Counter[str] = Counter()

    @property
    def lost(self) -> list[str]:
        return ["when it was said", *(f"{what} ({n})" for what, n in self._lost.items())]

    def recall(self, known: dict[str, Any]) -> None:
        self._time = count(known.get("createdAt")) or self._created

    def known(self) -> dict[str, Any]:
        """The time of the first reading, which every event has."""
        return {"createdAt": self._time}

    def lines(self) -> Iterator[Line]:
        self._lost = Counter()
        told = Retelling("imported", streamed=False, time=self._time)
        told.tools = [_tool(tool) for tool in records(self._given.get("tools"))]
        self._model = string(self._given.get("model")) or "unknown"
        for number, message in enumerate(self._messages, 1):
            self._tell(told, number, message)
            yield from self._told(told, number)
        told.settle()
        yield from self._told(told, len(self._messages))

    def more(self, stream: BinaryIO) -> Iterator[Line]:
        raise AssertionError("a document of messages does not grow")

    def settle(self) -> Iterator[Line]:
        return iter(())

    def _told(self, told: Retelling, number: int) -> Iterator[Line]:
        self.length = told.at
        for event in told.take():
            yield Line(number, codec.encode(event), event.seq, event.seq, event.time, event.time, event)

    def _tell(self, told: Retelling, number: int, message: dict[str, Any]) -> None:
        message_id, said = f"m{number}", self._content(message.get("content"))
        match message["role"]:
            case "system" | "developer" if told.at == 0 and told.system is None:
                told.system = "".join(block["text"] for block in said) or None
            case "system" | "developer":
                told.context(message_id, said, {"plugin": "imported"})
            case "user" if told.goes_on and said:
                told.steer(message_id, said)
            case "user":
                told.prompt(message_id, said)
            case "assistant":
                self._answer(told, message_id, message, said)
            case _:
                call_id = string(message.get("tool_call_id")) or string(message.get("name"))
                told.result(message_id, call_id, said)

    def _answer(self, told: Retelling, message_id: str, message: dict[str, Any], said: list[Block]) -> None:
        reasoning = string(message.get("reasoning_content")) or string(message.get("reasoning"))
        parts: list[Block] = [{"type": "reasoning", "text": reasoning}] if reasoning else []
        parts += said or blocks(string(message.get("refusal")))
        for call in records(message.get("tool_calls")):
            parts.append(_call(string(call.get("id")) or f"{message_id}-call", record(call.get("function"))))
        if isinstance(message.get("function_call"), dict):
            parts.append(_call(string(message["function_call"].get("name")), message["function_call"]))
        for part in parts:
            told.block(message_id, message_id, self._model, part)
        told.end_answer()

    def _content(self, content: Json) -> list[Block]:
        if isinstance(content, str):
            return blocks(content)
        out: list[Block] = []
        for part in records(content):
            if text := string(part.get("text")):
                out += blocks(text)
            elif kind := string(part.get("type")).removeprefix("input_").removesuffix("_url"):
                self._lost[f"parts of type {kind[:40]}"] += 1
                out += blocks(f"[{kind[:40]}]")
        return out


def is_document(document: Json) -> bool:
    """Whether a JSON document is, or claims to be, a list of messages."""
    if isinstance(document, dict):
        return isinstance(document.get("messages"), list)
    return isinstance(document, list)


def _document(stream: BinaryIO, name: str | None) -> Json:
    held = bytearray()
    for piece in Plaintext(stream):
        held += b"" if isinstance(piece, FrameEnd) else piece
        if len(held) > MAX_BYTES:
            raise LogUnreadable(f"more than {MAX_BYTES} bytes", file=name)
    try:
        document = jsontext.loads(bytes(held))
    except ValueError:
        raise LogUnreadable("not valid JSON", file=name) from None
    if not is_document(document):
        raise LogUnreadable("no list of messages", file=name)
    return document


def _is_message(message: dict[str, Any]) -> bool:
    return string(message.get("role")) in _ROLES


def _opening(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The messages up to the first that is not the system's."""
    first = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), 0)
    return messages[: first + 1]


def _digest(messages: Sequence[dict[str, Any]]) -> str:
    return hashlib.blake2b(jsontext.canonical(list(messages)).encode(), digest_size=10).hexdigest()


def _call(call_id: str, function: dict[str, Any]) -> Block:
    name = string(function.get("name")) or "unnamed"
    return {"type": "tool-call", "id": call_id or name, "name": name, "arguments": arguments(function.get("arguments"))}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = record(tool.get("function")) or tool
    given = {"name": string(function.get("name")), "description": string(function.get("description"))}
    return {**given, "parameters": record(function.get("parameters"))}
