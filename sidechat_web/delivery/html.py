"""Frames for the browser: one element each, its kind in `data-frame`, its contents from the page's templates.

`items`   entries that events created or changed, each with an id: it replaces the one that has it, or comes
          last, unless `data-known`. `data-settles` names streamed steps (`turn.step`, or `turn` for all) whose
          place they take.
`block`   a streaming block (`turn.step.index`): after its first `data-keep` parts stands the content, of
          which all before `data-done` are finished. `<template data-shell>` makes a block that is new.
`text`    more text at the end of a streaming block.
`face`    the title or another thing changed that a pane shows of its session.
`status`, `queue`, `merges`, `row`, `gone`, `gap`, `bye`, `hello` say in attributes what the JSON frames say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import escape

from sidechat_web.render.stream import Rewrite, Update

from .blocks import Key
from .reader import State


def hello(session_id: str, seq: int, state: State) -> str:
    return _frame("hello", session=session_id, seq=seq, **_said(state))


def welcome() -> str:
    return _frame("hello")


def status(state: State) -> str:
    return _frame("status", **_said(state))


def changed(kind: str, count: int | None = None) -> str:
    """What a pane shows beside the log changed (`queue`, `merges`, `face`): the page fetches it where it shows it."""
    return _frame(kind) if count is None else _frame(kind, count=count)


def gap(seq: int) -> str:
    return _frame("gap", seq=seq)


def bye(code: str) -> str:
    return _frame("bye", code=code)


def row(session: dict[str, Any]) -> str:
    """What a row shows that changes; the page fetches rows that it does not have."""
    flags = {name: "1" if session[name] else "" for name in ("archived", "pinned", "unread")}
    ended = session.get("lastTurn", {}).get("reason", {}).get("kind", "")
    named = {name: session[name] for name in ("title", "kind", "status")}
    return _frame("row", session=session["id"], ended=ended, updated=session["updatedAt"], **named, **flags)


def gone(session_id: str) -> str:
    return _frame("gone", session=session_id)


def items(seq: int, content: str, settles: Sequence[str]) -> str:
    """Empty where there is nothing to show or to settle."""
    if not content and not settles:
        return ""
    return _frame("items", f"<template>{content}</template>", seq=seq, settles=" ".join(settles))


def known_items(content: str) -> str:
    """Entries that replace those that the page has; others of them it does not show."""
    return _frame("items", f"<template>{content}</template>", seq=-1, settles="", known=1)


def block(key: Key, kind: str, updates: Iterable[Update], *, new: bool = False) -> str:
    """The frames that bring a client's block up to date."""
    name = ".".join(map(str, key))
    shell = ""
    if new:
        part = render_to_string("transcript/live-part.html", {"block": name, "kind": kind})
        shell = f"<template data-shell>{part}</template>"
    return "".join(_update(name, shell, update) for update in updates)


def _update(name: str, shell: str, update: Update) -> str:
    if isinstance(update, Rewrite):
        content = f"{shell}<template>{update.html}</template>"
        return _frame("block", content, block=name, keep=update.keep, done=update.done)
    return _frame("text", escape(update.text), block=name)


def _said(state: State) -> dict[str, Any]:
    ended = (state.reason or {}).get("kind", "")
    return {"status": state.status, "turn": "" if state.turn is None else state.turn, "ended": ended}


def _frame(kind: str, content: str = "", /, **said: Any) -> str:
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in said.items())
    return f'<div data-frame="{kind}"{attributes}>{content}</div>'
