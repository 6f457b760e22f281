"""OpenTelemetry spans of turns, requests and tools, made when they end. Off unless SIDECHAT_TRACES is on.

A turn's spans are kept until it ends, so that they can be its children. Who exports them, and where to, is said by
OpenTelemetry's own variables; without its SDK installed nothing is exported.
"""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings

from .facts import Fact

MOST_SPANS: Final = 1000  # of one turn
_parts: dict[str, list[Fact]] = {}


def record(fact: Fact) -> None:
    """Keep a part of a turn; export the turn when it ends."""
    if not settings.SIDECHAT_TRACES:
        return
    if fact.kind == "turn started":
        _parts[fact.session] = []
    elif fact.kind != "turn ended":
        kept = _parts.get(fact.session, [])
        if len(kept) < MOST_SPANS:
            kept.append(fact)
    else:
        _export(fact, _parts.pop(fact.session, []))


def _export(turn: Fact, parts: list[Fact]) -> None:
    from opentelemetry import trace

    tracer = trace.get_tracer("sidechat")
    span = tracer.start_span("turn", attributes=_attributes(turn), start_time=_ns(turn.started_ms or turn.at_ms))
    context = trace.set_span_in_context(span)
    for part in parts:
        name, began = part.kind.split()[0], _ns(part.started_ms or part.at_ms)
        inner = tracer.start_span(name, context, attributes=_attributes(part), start_time=began)
        if part.kind == "request failed" or part.details.get("error"):
            inner.set_status(trace.StatusCode.ERROR)
        inner.end(_ns(part.at_ms))
    if turn.details.get("reason") == "error":
        span.set_status(trace.StatusCode.ERROR)
    span.end(_ns(turn.at_ms))


def _attributes(fact: Fact) -> dict[str, Any]:
    where = {"sidechat.session": fact.session, "sidechat.seq": fact.seq, "sidechat.turn": fact.turn or 0}
    return {**where, **{f"sidechat.{name}": value for name, value in fact.details.items()}}


def _ns(ms: int) -> int:
    return ms * 1_000_000
