"""Quotes in a user's message: numbered, each with an optional comment, in one fixed form.

The quoted text stands in the message's text, so that the model reads it:

    Quote 1:
    > the quoted words

    Comment on quote 1: why so?

    What the user writes.

The message's source says where each came from: `quotes: [{session, seq, start?, cut?}]`, in their order.
`session` is a log id, `seq` the quoted message (or the last event before a text that still streams),
`start` the offset of the quoted words in that message's text where they stand there literally (in code
points), `cut` true where the quote was too long and was cut with a mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .cutting import cut

MAX_CHARS: Final = 4_000  # of one quote
MAX_QUOTES: Final = 20  # of one message
_QUOTED: Final = re.compile(r"^Quote \d+:\n(?:>[^\n]*(?:\n|$))+", re.M)
_LABEL: Final = re.compile(r"^Comment on quote \d+: ", re.M)


@dataclass(frozen=True, slots=True)
class Quote:
    """`text` as the user selected it in `session`'s effective log, at the event `seq`."""

    session: Session
    seq: int
    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A message's text with its quotes, and the references to what they quote."""

    text: str
    references: list[dict[str, Any]]


def compose(quotes: Sequence[Quote], text: str) -> Quoted:
    """The message that `quotes` and `text` make. Raises SidechatError `too_many_quotes`, `empty_quote`, `bad_seq`."""
    if len(quotes) > MAX_QUOTES:
        raise SidechatError(f"a message can carry {MAX_QUOTES} quotes; these are {len(quotes)}", "too_many_quotes")
    parts, references = [], []
    for number, quote in enumerate(quotes, 1):
        kept, was_cut = _kept(quote.text, number)
        parts.append(f"Quote {number}:\n" + "\n".join(f"> {line}".rstrip() for line in kept.split("\n")))
        if comment := quote.comment.strip():
            parts.append(f"Comment on quote {number}: {comment}")
        references.append(_reference(quote, was_cut))
    return Quoted("\n\n".join([*parts, text] if text.strip() else parts), references)


def own_words(message: Mapping[str, Any]) -> str:
    """What the user wrote in a message besides quoting; all of its text where that is nothing."""
    text = ev.text_of(message)
    if not ev.quote_references(message):
        return text
    return _LABEL.sub("", _QUOTED.sub("", text)).strip() or text


def _kept(text: str, number: int) -> tuple[str, bool]:
    clean = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not clean:
        raise SidechatError(f"quote {number} is empty", "empty_quote")
    return cut(clean, MAX_CHARS)


def _reference(quote: Quote, was_cut: bool) -> dict[str, Any]:
    event = reading.event(quote.session, quote.seq)
    if event is None:
        raise SidechatError(f"there is no event {quote.seq} to quote", "bad_seq")
    found: dict[str, Any] = {"session": _holder(quote.session, quote.seq).log_id, "seq": quote.seq}
    start = ev.text_of(event.message).find(quote.text.strip()) if event.message else -1
    return {**found, **({"start": start} if start >= 0 else {}), **({"cut": True} if was_cut else {})}


def _holder(session: Session, seq: int) -> Session:
    """The session whose own event `seq` is: `session`, or the living ancestor that it inherited the event from."""
    while seq < session.own_from and session.parent is not None and session.parent.deleted_at is None:
        session = session.parent
    return session
