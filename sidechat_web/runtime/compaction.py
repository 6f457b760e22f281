"""Compaction: one summary message takes the place of the oldest part of the surface.

The request repeats that part under the session's own header, so that the provider's cache still covers
it, and ends with one fixed instruction; `compaction/start` names the call. The summary and the message
that replaces the part are logged together or not at all: a failed compaction changes nothing but the log
of the attempt.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core import window
from sidechat_web.core.assembly import Assembly
from sidechat_web.core.errors import SidechatError
from sidechat_web.core.events import Draft, Event, Replace
from sidechat_web.core.surface import derived
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Session

from . import headers, live, requests
from .db import in_db
from .providers import catalog, listing, wire
from .providers.failures import ProviderFailure
from .providers.provider import Provider

PLUGIN: Final = "compact"
AUTOMATIC_SHARE: Final = 0.85
INSTRUCTION: Final = (
    "[Compaction, version 1] Summarise the conversation so far for yourself: your summary will stand in its place. "
    "Keep the goal, decisions and their reasons, facts, names, paths, numbers, open questions and what is unfinished. "
    "Notes that came back from side sessions belong in it too: keep their conclusions and say that they are advice. "
    "Do not call a tool. Write only the summary."
)
OPENING: Final = "[Summary of the earlier conversation]\n\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """A compaction that has been logged as started."""

    compaction_id: str
    session_id: str
    turn: int | None  # the open turn that it happens in; None between turns
    part: tuple[Event, ...]
    provider: Provider
    model: str
    body: bytes


class CompactionFailed(SidechatError):
    code = "compaction_failed"


async def compact(session_id: str, turn: int | None) -> None:
    """Replace the oldest part of the session's surface by a summary. Raises CompactionFailed; then nothing changed."""
    plan = await in_db(begin, session_id, turn)
    try:
        assembly = Assembly()
        async with aclosing(wire.stream(plan.provider, plan.body)) as chunks:
            async for chunk in chunks:
                assembly.add(chunk)
        text = "".join(b["text"] for b in assembly.blocks() if b["type"] == "text").strip()
        if not text:
            raise CompactionFailed("the model answered with an empty summary")
        await in_db(commit, plan, text, assembly.usage)
    except ProviderFailure as e:
        await in_db(fail, plan, e.failure["message"])
        raise CompactionFailed(f"compaction failed: {e.failure['message']}") from None
    except CompactionFailed as e:
        await in_db(fail, plan, e.message)
        raise
    except BaseException:
        await in_db(fail, plan, "the compaction was stopped")
        raise


@transaction.atomic
def begin(session_id: str, turn: int | None) -> Plan:
    """Choose the part, log `compaction/start`, and build the request."""
    session = _locked(session_id, turn)
    surface = reading.surface(session)
    part = window.oldest_part([surface.event(seq) for seq in surface.nodes])
    if not part:
        raise CompactionFailed("there is nothing to compact yet: the last turns are kept as they are")
    header = surface.header or headers.of(session)
    plan = Plan(
        new_id(),
        session_id,
        turn,
        tuple(part),
        catalog.provider_of(header["config"]),
        header["config"]["model"],
        requests.encode_messages(session, header, [*_messages(part), _instruction()]),
    )
    log.append_locked(session, [Draft(ev.COMPACTION_START, {"compactionId": plan.compaction_id, "turn": turn})])
    return plan


@transaction.atomic
def commit(plan: Plan, text: str, usage: dict[str, int] | None) -> None:
    """Log the summary, the message that stands for the part, and the end; CompactionFailed if the part changed."""
    session = _locked(plan.session_id, plan.turn)
    surface = reading.surface(session)
    seqs = [event.seq for event in plan.part]
    if surface.nodes[: len(seqs)] != seqs:
        raise CompactionFailed("the history changed while it was being summarised")
    summary: dict[str, Any] = {
        "compactionId": plan.compaction_id,
        "summary": ev.text_blocks(text),
        "shadowedRange": {"start": seqs[0], "end": seqs[-1]},
        "shadowedSeqs": seqs,
        "shadowedTokenCount": window.estimate_tokens(_messages(plan.part)),
        "provider": plan.provider.name,
        "model": plan.model,
        **({"usage": usage} if usage else {}),
    }
    [logged] = log.append_locked(session, [Draft(ev.COMPACTION_SUMMARY, summary)])
    source = {"kind": "plugin", "plugin": PLUGIN, "compactionId": plan.compaction_id}
    message = ev.context_message(new_id(), OPENING + text, source)
    sources = (seqs[0], logged.seq, *seqs[1:])
    end = {"compactionId": plan.compaction_id, "turn": plan.turn}
    drafts = [
        Draft(message.type, message.data, Replace(seqs[0], seqs[-1]), sources),
        Draft(ev.COMPACTION_END, end),
    ]
    for event in log.append_locked(session, drafts):
        surface.apply(event)
    Session.objects.filter(pk=session.pk).update(context_used=window.estimate_tokens(surface.messages()))
    transaction.on_commit(lambda: live.ring(plan.session_id, "row"))


@transaction.atomic
def fail(plan: Plan, why: str) -> None:
    """Log that the attempt ended without effect."""
    try:
        session = _locked(plan.session_id, plan.turn)
    except (SidechatError, Session.DoesNotExist):
        return
    end = {"compactionId": plan.compaction_id, "turn": plan.turn, "error": {"message": why}}
    log.append_locked(session, [Draft(ev.COMPACTION_END, end)])


def unfinished(session: Session) -> list[Draft]:
    """The ends of compactions that a dead process left open in the session's own log."""
    open_ones: dict[str, Any] = {}
    types = [ev.COMPACTION_START, ev.COMPACTION_END]
    for event in reading.events(session, after=max(session.own_from, session.foreign_length) - 1, types=types):
        if event.type == ev.COMPACTION_START:
            open_ones[event.data["compactionId"]] = event.data["turn"]
        else:
            open_ones.pop(event.data["compactionId"], None)
    error = {"message": "the server stopped while the summary was being written"}
    return [
        Draft(ev.COMPACTION_END, {"compactionId": key, "turn": turn, "error": error}) for key, turn in open_ones.items()
    ]


def is_due(session: Session) -> bool:
    """Whether the next request would fill more of the model's window than is safe."""
    header = session.settings.get("header")
    if header is None or not session.context_used:
        return False
    size = catalog.window(header["config"])
    if size is None:
        _ask_for_window(header["config"])
        return False
    return session.context_used >= AUTOMATIC_SHARE * size


def _ask_for_window(config: dict[str, Any]) -> None:
    """Have the provider list its models, in whose list the window may stand: for the next request, not for this one."""
    provider = catalog.providers().get(config["provider"])
    if provider is not None:
        listing.first(provider, wait=False)


def _locked(session_id: str, turn: int | None) -> Session:
    session = log.lock(session_id)
    if session.open_turn != turn:
        raise CompactionFailed("a turn is running; compact when it has ended")
    return session


def _messages(part: tuple[Event, ...] | list[Event]) -> list[ev.Message]:
    return [message for message in map(derived, part) if message is not None]


def _instruction() -> ev.Message:
    message: ev.Message = ev.context_message("compaction", INSTRUCTION, {"kind": "plugin", "plugin": PLUGIN}).data
    return message
