"""Requests as the log explains them: a body is a pure function of a log prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.surface import Surface
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .providers import wire

_MARKS: Final = (ev.STEP_START, ev.LLM_RETRY, ev.ASSISTANT_MESSAGE, ev.STEP_END, ev.TURN_END)


@dataclass(slots=True)
class Attempt:
    """One request of the session's own. `stop` is the length of the log prefix that explains it, None while open."""

    turn: int
    step: int
    attempt: int
    started: int
    stop: int | None = None
    usage: dict[str, int] | None = None
    sent: bool = True


def encode(session: Session, surface: Surface) -> bytes:
    """The body of the request that `surface` gives, byte for byte as it is sent."""
    assert surface.header is not None
    return encode_messages(session, surface.header, surface.messages())


def encode_messages(session: Session, header: dict[str, Any], messages: Sequence[ev.Message]) -> bytes:
    return wire.encode(header, messages, cache_key=session.settings.get("cacheKey"))


def attempts(session: Session) -> list[Attempt]:
    """Own requests in order, one for each attempt."""
    out: list[Attempt] = []
    current: Attempt | None = None
    for event in reading.events(session, after=session.own_from - 1, types=_MARKS):
        if event.type == ev.STEP_START:
            current = Attempt(event.data["turn"], event.data["step"], 1, event.seq)
            out.append(current)
        elif current is not None:
            current = _observe(out, current, event)
    return [attempt for attempt in out if attempt.sent]


def list_requests(session: Session) -> list[dict[str, Any]]:
    """`[{n, turn, step, attempt, usage?}]`, `n` from 1."""
    return [_as_json(n, attempt) for n, attempt in enumerate(attempts(session), 1)]


def body(session: Session, n: int) -> str | None:
    """Own request `n` rebuilt from the log; None for a turn that another program ran. Raises IndexError."""
    if n < 1:
        raise IndexError(n)
    attempt = attempts(session)[n - 1]
    if attempt.started < session.foreign_length:
        return None
    return encode(session, reading.surface(session, stop=attempt.stop)).decode()


def _observe(out: list[Attempt], current: Attempt, event: ev.Event) -> Attempt | None:
    if current.stop is None:
        current.stop = event.seq
    if event.type == ev.LLM_RETRY:
        again = Attempt(current.turn, current.step, current.attempt + 1, current.started)
        out.append(again)
        return again
    if event.type == ev.ASSISTANT_MESSAGE:
        current.usage = event.data.get("usage")
    if event.type == ev.TURN_END:
        _mark_unsent(out, event)
        return None
    return current


def _mark_unsent(out: list[Attempt], turn_end: ev.Event) -> None:
    """A turn that was refused before its request (our codes are lower case, a provider's upper) sent nothing."""
    reason = turn_end.data["reason"]
    code = reason.get("error", {}).get("code", "") if reason.get("kind") == "error" else ""
    if code and code == code.lower() and out[-1].turn == turn_end.data["turn"]:
        out[-1].sent = False


def _as_json(n: int, attempt: Attempt) -> dict[str, Any]:
    out: dict[str, Any] = {"n": n, "turn": attempt.turn, "step": attempt.step, "attempt": attempt.attempt}
    if attempt.usage:
        out["usage"] = attempt.usage
    return out
