"""What a side inherited and what it did not, and what that spared: read off the logs."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import Any

from django.conf import settings

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, headers
from sidechat_web.runtime.providers import catalog
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from . import frame


def knows(side: Session) -> dict[str, Any]:
    """What the side inherited and what sets it apart.

    `turn`           the last inherited turn, 0 where it inherited none
    `running_turn`   the parent's turn that was running when the side was opened, and is not included, or None
    `summary`        the inherited turns `[A, B]` that a summary stands for, or None
    `behind`         how many turns the parent has ended since (handbacks do not count); 0 without a parent
    `carried`        `{session, truncated}` of the earlier side whose words it carries (a log id), or None
    `own_system`     whether its system prompt is not the inherited one, which costs it the cache
    `own_model`      likewise its model
    """
    parent = side.parent if side.parent is not None and side.parent.deleted_at is None else None
    return {
        **_inherited(side, side.own_from),
        "running_turn": side.settings.get("openTurn"),
        "behind": _ended_since(parent, side.own_from) if parent is not None else 0,
        "carried": _carried(side),
        **apart(side, parent),
    }


def would_know(parent: Session, at_seq: int | None = None) -> dict[str, Any]:
    """The same of a side that were opened now, at `at_seq` or by default. Raises TurnOpen."""
    cut = commands.boundary_of(parent, at_seq)
    system = settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT
    return {
        **_inherited(parent, cut),
        "running_turn": parent.open_turn,
        "behind": _ended_since(parent, cut),
        "carried": None,
        "own_system": bool(system) and system != headers.of(parent).get("system"),
        "own_model": False,
    }


def first_cached_share(side: Session) -> float | None:
    """The part of the side's first request that the provider read from its cache, 0 to 1; None where it is unknown."""
    answers = reading.events(side, after=side.own_from - 1, types=[ev.ASSISTANT_MESSAGE])
    usage = next((event.data["usage"] for event in islice(answers, 1) if event.data.get("usage")), None)
    if usage is None:
        return None
    cached = usage.get("cacheReadTokens", 0)
    sent = usage.get("inputTokens", 0) + usage.get("cacheWriteTokens", 0) + cached
    return cached / sent if sent else None


def apart(side: Session, parent: Session | None) -> dict[str, bool]:
    """`{own_system, own_model}`: whether the header of the side's requests is another than the inherited one."""
    inherited = headers.logged(side, before=side.own_from) or (parent.settings.get("header") if parent else None)
    own = side.settings.get("header")
    if not inherited or not own:
        return {"own_system": False, "own_model": False}
    other_model = catalog.model_id(own["config"]) != catalog.model_id(inherited["config"])
    return {"own_system": own.get("system") != inherited.get("system"), "own_model": other_model}


def _inherited(session: Session, cut: int) -> dict[str, Any]:
    """`{turn, summary}` of the prefix `[0, cut)`."""
    ended = reading.tail(session, 1, before=cut, types=[ev.TURN_END])
    return {"turn": _turn(session, ended[0]) if ended else 0, "summary": _summarised(session, cut)}


def _turn(session: Session, ended: ev.Event) -> int:
    """The number of an ended turn; another program's log may not say it at the end."""
    if ended.turn is not None:
        return ended.turn
    started = reading.tail(session, 1, before=ended.seq, types=[ev.TURN_START])
    return (started[0].turn if started else None) or 0


def _ended_since(parent: Session, seed: int) -> int:
    ended = reading.count(parent, after=seed - 1, types=[ev.TURN_END])
    if not ended or parent.kind != Session.Kind.SIDE:
        return ended
    asked = reading.events(parent, after=seed - 1, types=[ev.CONTEXT_MESSAGE])
    handbacks = sum(frame.form_of(event) == frame.HANDBACK_REQUEST for event in asked)
    return max(0, ended - handbacks)


def _summarised(session: Session, cut: int) -> list[int] | None:
    """The first and last turn that the summaries in the prefix `[0, cut)` stand for."""
    summaries = list(reading.events(session, stop=cut, types=[ev.COMPACTION_SUMMARY]))
    standing = {summary.seq + 1 for summary in summaries}  # the message that replaces follows its summary at once
    shadowed = {seq for summary in summaries for seq in _shadowed(summary)} - standing
    starts = list(reading.events(session, stop=max(shadowed, default=-1) + 1, types=[ev.TURN_START]))
    if not starts:
        return None
    seqs = [start.seq for start in starts]
    turns = [turn for seq in shadowed if (turn := starts[max(0, bisect_right(seqs, seq) - 1)].turn) is not None]
    return [min(turns), max(turns)] if turns else None


def _shadowed(summary: ev.Event) -> list[int]:
    """The messages that a summary replaced; another program's event may lack them."""
    seqs = summary.data.get("shadowedSeqs") if isinstance(summary.data, dict) else None
    return [seq for seq in seqs if ev.safe_integer(seq)] if isinstance(seqs, list) else []


def _carried(side: Session) -> dict[str, Any] | None:
    seed = side.own_from
    for event in reading.events(side, after=seed - 1, stop=seed + 2, types=[ev.CONTEXT_MESSAGE]):
        if frame.form_of(event) == frame.CARRIED:
            source = event.data["source"]
            return {"session": source.get("session"), "truncated": bool(source.get("truncated"))}
    return None
