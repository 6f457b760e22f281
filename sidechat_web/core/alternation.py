"""Messages for a server whose template insists that user and assistant alternate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from .events import Message, blocks_of, text_blocks, text_of


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The messages with each run of user texts joined by blank lines; anything else stays as it is."""
    groups = itertools.groupby(messages, key=_is_user_text)
    return [message for is_text, group in groups for message in (_joined(group) if is_text else group)]


def _is_user_text(message: Message) -> bool:
    return message["role"] == "user" and all(block.get("type") == "text" for block in blocks_of(message["content"]))


def _joined(run: Iterator[Message]) -> list[Message]:
    first, *rest = run
    if not rest:
        return [first]
    return [{**first, "content": text_blocks("\n\n".join(map(text_of, (first, *rest))))}]
