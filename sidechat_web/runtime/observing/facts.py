"""What an append says of a turn's progress: a fold over events that keeps times, codes and counts, and no content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event

Kind = Literal["turn started", "turn ended", "request answered", "request failed", "tool ran"]
MOST_SESSIONS: Final = 10_000
_COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "reasoningTokens")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that ended (or a turn that began). `started_ms` is None where another process saw the beginning."""

    kind: Kind
    session: str
    seq: int
    turn: int | None
    at_ms: int
    started_ms: int | None = None
    details: dict[str, Any] = field(default_factory=dict)  # codes, names of providers, counts

    @property
    def ms(self) -> int | None:
        return None if self.started_ms is None else max(0, self.at_ms - self.started_ms)


@dataclass(slots=True)
class _Open:
    """When the open turn, its request and its tools began."""

    turn: int
    began: int
    request: int
    tools: dict[str, int] = field(default_factory=dict)


class Watch:
    """The open turns of the sessions that this process appends to."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def see(self, session_id: str, events: Sequence[Event]) -> list[Fact]:
        return [fact for event in events for fact in self._see(session_id, event)]

    def _see(self, session: str, event: Event) -> Iterator[Fact]:
        now, known = self._open.get(session), event.data if isinstance(event.data, dict) else {}
        match event.type:
            case ev.TURN_START:
                self._forget_oldest()
                self._open[session] = _Open(known["turn"], event.time, event.time)
                yield Fact("turn started", session, event.seq, event.turn, event.time)
            case ev.STEP_START if now:
                now.request = event.time
            case ev.ASSISTANT_MESSAGE:
                yield _fact("request answered", session, event, now.request if now else None, _answer(known))
            case ev.LLM_RETRY:
                yield _fact("request failed", session, event, now.request if now else None, _failure(known))
                if now:
                    now.request = event.time
            case ev.TOOL_CALL if now:
                now.tools[str(known.get("callId"))] = event.time
            case ev.TOOL_RESULT:
                call = (known.get("message") or {}).get("source", {}).get("callId")
                began = now.tools.pop(str(call), None) if now else None
                yield _fact("tool ran", session, event, began, {"error": _is_error(known)})
            case ev.TURN_END:
                self._open.pop(session, None)
                yield _fact(
                    "turn ended", session, event, now.began if now else None, _reason(known.get("reason") or {})
                )

    def _forget_oldest(self) -> None:
        while len(self._open) >= MOST_SESSIONS:
            self._open.pop(next(iter(self._open)))


def _fact(kind: Kind, session: str, event: Event, began: int | None, details: dict[str, Any]) -> Fact:
    return Fact(kind, session, event.seq, event.turn, event.time, began, details)


def _answer(data: dict[str, Any]) -> dict[str, Any]:
    source, usage = data.get("message", {}).get("source", {}), data.get("usage") or {}
    counts = {name: count for name in _COUNTS if (count := usage.get(name))}
    return {"provider": source.get("provider", ""), "model": source.get("model", ""), **counts}


def _failure(data: dict[str, Any]) -> dict[str, Any]:
    failure = data.get("failure") or {}
    status = {"status": failure["status"]} if "status" in failure else {}
    return {"provider": data.get("provider", ""), "code": failure.get("code", ""), **status}


def _reason(reason: dict[str, Any]) -> dict[str, Any]:
    code = (reason.get("error") or {}).get("code")
    return {"reason": reason.get("kind", ""), **({"code": code} if code else {})}


def _is_error(data: dict[str, Any]) -> bool:
    return any(block.get("isError") for block in data.get("message", {}).get("content", ()))
