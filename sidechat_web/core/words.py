"""The words of a text, as a search compares them: letters and digits only, without case and accents. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from . import events as ev
from .events import Event

LONGEST_WORD: Final = 64  # characters; of a longer one the beginning is kept
MOST_ASKED: Final = 12

# Scripts that are written without spaces: each sign is a word of its own.
_SIGN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_MARK: Final = "\u0300-\u036f"  # accents that stand behind their letter
_WORD: Final = re.compile(rf"[{_SIGN}]|[^\W_{_SIGN}](?:[^\W_{_SIGN}]|[{_MARK}])*")


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a snippet; `found` where it is a word that was looked for."""

    text: str
    found: bool = False


def said(event: Event) -> str:
    """What a person, the model or a note of another session says in this event; empty for every other event."""
    message = event.message
    if message is None or event.type == ev.TOOL_RESULT:
        return ""
    source = message.get("source")
    if event.type != ev.ASSISTANT_MESSAGE and isinstance(source, dict):
        by_person = source.get("kind") in ("user", None) and event.type == ev.USER_MESSAGE
        if not by_person and not (source.get("session") or source.get("sessions")):
            return ""
    return ev.joined(message.get("content"))


def words(text: str) -> list[str]:
    """The different words of `text`, in order of their first appearance."""
    return list(dict.fromkeys(folded for _, _, folded in _spans(text)))


def asked(query: str) -> list[str]:
    """The beginnings of words that a query asks for: all must be found. A lone ASCII letter asks for nothing."""
    return [word for word in words(query) if len(word) > 1 or not word.isascii()][:MOST_ASKED]


def snippet(text: str, query: str, around: int = 70) -> list[Piece]:
    """`text` near the first word that `query` asks for, about `around` characters to each side, on one line."""
    beginnings = tuple(asked(query))
    found = [(start, end) for start, end, word in _spans(text) if word.startswith(beginnings)] if beginnings else []
    first = found[0][0] if found else 0
    low, high = _word_start(text, first - around), min(len(text), first + 2 * around)
    pieces, at = [Piece("…")] if low else [], low
    for start, end in found:
        if start < high:
            pieces += [Piece(_flat(text[at:start])), Piece(_flat(text[start:end]), True)]
            at = end
    pieces.append(Piece(_flat(text[at:high]) + ("…" if high < len(text) else "")))
    return [piece for piece in pieces if piece.text]


def _word_start(text: str, at: int) -> int:
    """`at`, or a little further on, where a word starts."""
    if at <= 0:
        return 0
    space = text.find(" ", at, at + 20)
    return at if space < 0 else space + 1


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Each word with where it stands."""
    for match in _WORD.finditer(text):
        if folded := _folded(match[0]):
            yield match.start(), match.end(), folded[:LONGEST_WORD]


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word).casefold()
    return "".join(c for c in parts if c.isalnum())


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub("[\ud800-\udfff]", "\ufffd", text))
