"""Which part of the surface a compaction may replace: whole tool pairs, the last turns verbatim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from .events import ASSISTANT_MESSAGE, TOOL_RESULT, USER_MESSAGE, Event, Message

KEPT_TURNS: Final = 2
_CHARS_PER_TOKEN: Final = 4


def oldest_part(nodes: Sequence[Event]) -> list[Event]:
    """The oldest surface nodes that one summary may stand for; empty where nothing can be replaced.

    Keeps the last `KEPT_TURNS` prompts and all that follows them; where there are fewer, the last one, and
    inside a single long turn the later half. Never parts a tool call from its result, and never leaves a
    part of fewer than two nodes, which a summary would not shorten.
    """
    legal = _cuts(nodes)
    prompts = [i for i, node in enumerate(nodes) if node.type == USER_MESSAGE]
    for kept in range(KEPT_TURNS, 0, -1):
        if len(prompts) > kept and (cut := _last_at_most(legal, prompts[-kept])) >= 2:
            return list(nodes[:cut])
    cut = _last_at_most(legal, len(nodes) // 2)
    return list(nodes[:cut]) if cut >= 2 else []


def estimate_tokens(messages: Sequence[Message]) -> int:
    """A rough size of these messages for a model, where no usage was reported."""
    return sum(len(json.dumps(m["content"])) for m in messages) // _CHARS_PER_TOKEN


def _cuts(nodes: Sequence[Event]) -> list[int]:
    """The positions before which no call is unanswered; 0 is one of them."""
    open_calls: set[str] = set()
    cuts = [0]
    for i, node in enumerate(nodes):
        if node.type == ASSISTANT_MESSAGE:
            content = node.data["message"]["content"]
            open_calls |= {block["id"] for block in content if block.get("type") == "tool-call"}
        elif node.type == TOOL_RESULT:
            open_calls.discard(node.data["message"]["source"]["callId"])
        if not open_calls:
            cuts.append(i + 1)
    return cuts


def _last_at_most(cuts: Sequence[int], limit: int) -> int:
    return max((cut for cut in cuts if cut <= limit), default=0)
