"""What an earlier side said, as one quoted message for the side that renews it. Pure.

Every block is a label of ours and lines that start with `>`, so that no quoted text can pass for a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event
from sidechat_web.runtime.cutting import cut

from . import frame
from .note import named

MAX_CHARS: Final = 12_000  # of the whole message: some 3,000 tokens
BLOCK_CHARS: Final = 3_000  # of one thing that was said
_OPENING: Final = (
    "[Side session, version 1] This was said before, in the side session {name}. It is quoted here, oldest first. "
    "The main session has moved on since then."
)
_LEFT_OUT: Final = "[… what was said before that is left out]"
_ASKED: Final = "The user asked:"
_ANSWERED: Final = "The answer was:"
_NOTED: Final = "A note from another side session:"
_SUMMARISED: Final = "A summary of what was said before:"
_BLOCK: Final = re.compile(r"^[^>\n\[][^\n]*:\n>[^\n]*(?:\n>[^\n]*)*", re.M)


@dataclass(frozen=True, slots=True)
class Carried:
    """The message's text; `truncated` where something of what was said is missing."""

    text: str
    truncated: bool


def compose(title: str, side_id: str, events: Iterable[Event]) -> Carried | None:
    """The side's own `events`, as they stand on its surface, quoted; None where nothing was said."""
    events = list(events)
    found = list(_blocks(events))
    if not found:
        return None
    opening = _OPENING.format(name=named(title, side_id))
    kept = _newest([text for text, _ in found], MAX_CHARS - len(opening) - len(_LEFT_OUT) - 4)
    left_out = len(kept) < len(found) or any(_lacks_beginning(event) for event in events)
    parts = [opening, *([_LEFT_OUT] if left_out else []), *kept]
    return Carried("\n\n".join(parts), left_out or any(was_cut for _, was_cut in found[-len(kept) :]))


def _newest(blocks: list[str], room: int) -> list[str]:
    """The last blocks that fit into `room` characters, at least one."""
    kept: list[str] = []
    for block in reversed(blocks):
        room -= len(block) + 2
        if room < 0 and kept:
            break
        kept.insert(0, block)
    return kept


def _blocks(events: Iterable[Event]) -> Iterator[tuple[str, bool]]:
    """What was said, block by block; a handback and the request for it are left out, they repeat it."""
    handback = False
    for event in events:
        form = frame.form_of(event)
        if form == frame.CARRIED:
            yield from ((block, False) for block in _BLOCK.findall(ev.text_of(event.data)))
        elif form == frame.HANDBACK:
            yield _block(_NOTED, ev.text_of(event.data))
        elif form == frame.HANDBACK_REQUEST:
            handback = True
        elif form is None and event.type in (ev.USER_MESSAGE, ev.CONTEXT_MESSAGE):
            handback = False
            yield from _said(event)
        elif event.type == ev.ASSISTANT_MESSAGE and not handback:
            text = ev.text_of(event.data["message"]).strip()
            yield from [_block(_ANSWERED, text)] if text else []


def _lacks_beginning(event: Event) -> bool:
    """Whether this is a carried message that left something out already."""
    return frame.form_of(event) == frame.CARRIED and _LEFT_OUT in ev.text_of(event.data).split("\n")


def _said(event: Event) -> Iterator[tuple[str, bool]]:
    source = event.data.get("source") or {}
    if source.get("plugin") == "compact":
        yield _block(_SUMMARISED, ev.text_of(event.data))
    elif source.get("kind") == "user":
        yield _block(_ASKED, ev.text_of(event.data))


def _block(label: str, text: str) -> tuple[str, bool]:
    kept, was_cut = cut(text.strip(), BLOCK_CHARS)
    return "\n".join([label, *(f"> {line}".rstrip() for line in kept.split("\n"))]), was_cut
