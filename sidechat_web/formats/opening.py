"""Which program wrote a file, by what it begins with."""

from __future__ import annotations

import re
from typing import BinaryIO, Final, cast

from sidechat_web.core import jsontext
from sidechat_web.core.events import Json

from . import chat_messages, claude_code, codex
from .chat_messages import ChatMessages
from .dsh import DshLog
from .incoming import Incoming
from .plaintext import first_text
from .told import ToldLog

_PEEK_BYTES: Final = 1 << 18
_CLAUDE_CODE: Final = re.compile(rb'"(sessionId|parentUuid)"\s*:')
_MESSAGES: Final = re.compile(rb'\s*(\[|\{.*"messages"\s*:\s*\[)', re.DOTALL)


def open_log(stream: BinaryIO, name: str | None = None) -> Incoming:
    """The log in `stream`, whose program is told by its contents; what is none of ours is read as a harness log.

    Raises a LogRefused for what cannot be one, NothingYet for a file that only begins.
    """
    peeked = _Peeked(stream)
    whole = cast(BinaryIO, peeked)
    match _program(first_text(peeked.head)):
        case codex.PROGRAM:
            return ToldLog(whole, name, codex.Codex())
        case claude_code.PROGRAM:
            return ToldLog(whole, name, claude_code.ClaudeCode())
        case chat_messages.PROGRAM:
            return ChatMessages(whole, name)
    return DshLog(whole, name)


def _program(text: bytes) -> str:
    """The program whose file begins with `text`; empty where it is none that is told anew."""
    line, newline, _ = text.partition(b"\n")
    first = _parsed(line)
    if isinstance(first, dict) and first.get("type") == "session":
        return ""
    if isinstance(first, dict) and codex.is_entry(first):
        return codex.PROGRAM
    if isinstance(first, dict) and claude_code.is_entry(first):
        return claude_code.PROGRAM
    if chat_messages.is_document(first) or (first is None and _MESSAGES.match(text)):
        return chat_messages.PROGRAM
    endless = first is None and not newline
    return claude_code.PROGRAM if endless and _CLAUDE_CODE.search(text) else ""


class _Peeked:
    """A stream whose beginning was looked at, read from its start."""

    def __init__(self, stream: BinaryIO) -> None:
        self.head = b""
        while len(self.head) < _PEEK_BYTES and (part := stream.read(_PEEK_BYTES - len(self.head))):
            self.head += part
        self._rest, self._stream = self.head, stream

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            return self._stream.read(size)
        cut = len(self._rest) if size < 0 else size
        out, self._rest = self._rest[:cut], self._rest[cut:]
        return out + self._stream.read() if size < 0 else out


def _parsed(line: bytes) -> Json:
    try:
        return jsontext.loads(line)
    except ValueError:
        return None
