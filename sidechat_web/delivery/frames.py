"""Frames as JSON text: the protocol of programs, and what the browser's frames say in HTML."""

from __future__ import annotations

from typing import Any

from sidechat_web.core import codec, jsontext
from sidechat_web.core.events import Event
from sidechat_web.runtime.live import Delta

from .reader import State


def hello(session_id: str, seq: int, state: State) -> str:
    """`seq` is the last one of the log, -1 where it is empty."""
    return _text("hello", session=session_id, seq=seq, status=state.status, turn=state.turn)


def welcome() -> str:
    """The tree's hello: what changes from now on will be told."""
    return _text("hello")


def event(event: Event) -> str:
    return _text("event", event=codec.envelope(event))


def delta(d: Delta) -> str:
    return _text("delta", turn=d.turn, step=d.step, index=d.index, kind=d.kind, offset=d.offset, text=d.text)


def status(state: State) -> str:
    return _text("status", status=state.status, turn=state.turn, reason=state.reason)


def items(kind: str, found: list[dict[str, Any]]) -> str:
    """A `queue` or `merges` frame."""
    return _text(kind, items=found)


def gap(seq: int) -> str:
    return _text("gap", seq=seq)


def bye(code: str) -> str:
    return _text("bye", code=code)


def row(session: dict[str, Any]) -> str:
    return _text("row", session=session)


def gone(session_id: str) -> str:
    return _text("gone", session=session_id)


def _text(t: str, /, **fields: Any) -> str:
    return jsontext.dumps({"t": t, **fields})
