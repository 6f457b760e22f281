"""A session's log as readable Markdown, event by event, with the provenance of everything injected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from sidechat_web.core import events as ev
from sidechat_web.core.events import Block, Event, Json, Replace, blocks_of, joined
from sidechat_web.storage.models import Session

_FENCE: Final = re.compile("`{3,}")
_Data: TypeAlias = dict[str, Any]


def transcript(session: Session, events: Iterable[Event]) -> Iterator[str]:
    """The pieces of the document, each ending in a blank line."""
    yield f"# {_line(session.title) or 'Untitled session'}\n\n"
    yield _facts(session)
    for event in events:
        if session.seed_length and event.seq == session.seed_length:
            yield f"---\n\n*Everything above was inherited from `{session.parent_log_id}`.*\n\n"
        render = _RENDERERS.get(event.type)
        if render is not None and isinstance(event.data, dict):
            yield from (part + "\n\n" for part in render(event, event.data) if part)


def _facts(session: Session) -> str:
    facts = [f"Session `{session.log_id}`", f"created {_time(session.created_at)}"]
    if session.parent_log_id:
        facts.append(f"forked from `{session.parent_log_id}` after {session.seed_length or 0} events")
    if session.cwd:
        facts.append(f"in `{session.cwd}`")
    return " · ".join(facts) + "\n\n"


def _turn_start(event: Event, data: _Data) -> Iterator[str]:
    yield f"## Turn {data.get('turn')}"


def _turn_end(event: Event, data: _Data) -> Iterator[str]:
    reason = data.get("reason")
    kind = reason.get("kind") if isinstance(reason, dict) else None
    if isinstance(reason, dict) and kind not in (None, "completed"):
        failure = reason.get("error")
        detail = f": {_line(failure.get('message'))}" if isinstance(failure, dict) else ""
        yield f"*The turn ended: {kind}{detail}*"


def _user(event: Event, data: _Data) -> Iterator[str]:
    source = data["source"]
    yield "### User" if source["kind"] == "user" else f"### Context\n\n{_provenance(source)}"
    if isinstance(event.surface_op, Replace):
        yield f"*For the model, this replaces the messages from event {event.surface_op.start} on.*"
    yield from _blocks(data["content"])


def _provenance(source: _Data) -> str:
    """Who injected a message: the plug-in, and for a note from another session, which and how far it reaches."""
    who = f"plugin `{source.get('plugin')}`" if source["kind"] == "plugin" else f"`{source['kind']}`"
    facts = [f"From {who}" + (f", {source['form']}" if isinstance(source.get("form"), str) else "")]
    given = source.get("sessions")
    notes = given if isinstance(given, list) else [source] if "session" in source else []
    for note in blocks_of(notes):
        reach = f", through event {note['throughSeq']}" if "throughSeq" in note else ""
        facts.append(f"of session `{note.get('session')}`{reach}")
    facts += [mark for mark in ("truncated", "edited") if source.get(mark) is True]
    return f"*{'; '.join(facts)}*"


def _assistant(event: Event, data: _Data) -> Iterator[str]:
    if not data["message"]["content"]:
        return
    source = data["message"]["source"]
    yield f"### Assistant\n\n*{source.get('provider')}/{source.get('model')}*"
    yield from _blocks(data["message"]["content"])
    if data.get("interrupted") is True:
        yield "*Interrupted.*"


def _tool_result(event: Event, data: _Data) -> Iterator[str]:
    block = data["message"]["content"][0]
    failed = " (failed)" if block.get("isError") is True else ""
    yield f"#### Result of `{block['toolCallId']}`{failed}"
    yield _fenced(joined(block["content"]))
    yield from (_image(image) for image in blocks_of(block["content"], "image"))


def _compaction(event: Event, data: _Data) -> Iterator[str]:
    yield f"*Earlier messages were compacted by {data.get('provider')}/{data.get('model')}.*"


def _blocks(content: Json) -> Iterator[str]:
    for block in blocks_of(content):
        render = _BLOCKS.get(str(block.get("type")))
        yield render(block) if render else f"*A block of type `{_line(block.get('type'))}`.*"


def _text(block: Block) -> str:
    return str(block.get("text", ""))


def _reasoning(block: Block) -> str:
    quoted = "\n".join(f"> {line}" for line in _text(block).split("\n"))
    return f"> *Reasoning*\n>\n{quoted}"


def _call(block: Block) -> str:
    return (
        f"#### Call `{block.get('id')}` of `{block.get('name')}`\n\n{_fenced(str(block.get('arguments', '')), 'json')}"
    )


def _image(block: Block) -> str:
    attachment = block.get("attachment")
    name = attachment.get("name") or attachment.get("attachmentId") if isinstance(attachment, dict) else None
    return f"*Image {_line(name)}*"


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any in the text."""
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _line(value: Json) -> str:
    return " ".join(str(value or "").split())


def _time(epoch_ms: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"at {epoch_ms} ms"


_BLOCKS: Final[dict[str, Callable[[Block], str]]] = {
    "text": _text,
    "reasoning": _reasoning,
    "tool-call": _call,
    "image": _image,
}
_RENDERERS: Final[dict[str, Callable[[Event, _Data], Iterator[str]]]] = {
    ev.TURN_START: _turn_start,
    ev.TURN_END: _turn_end,
    ev.USER_MESSAGE: _user,
    ev.CONTEXT_MESSAGE: _user,
    ev.ASSISTANT_MESSAGE: _assistant,
    ev.TOOL_RESULT: _tool_result,
    ev.COMPACTION_SUMMARY: _compaction,
}
