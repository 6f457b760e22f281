"""A log folded to what people read. Pure: the page and the live stream render the same items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event, Replace

from . import markdown, tools, words
from .items import Answer, Aside, Compaction, Item, Link, Note, Part, Quoted, Seed, ToolCard, Turn, TurnEnd, UserMessage
from .sources import Quote, origins, quotes, source_of, summary
from .text import line, plain
from .turns import OpenTurn

_ASIDES: Final = {
    "advisor": "Framed as a read-only advisor.",
    "handback-request": "Asked for a note to hand back.",
    "retraction": "Note retracted. The model no longer sees it; the cache is lost from there on.",
    "promotion": "Promoted to an ordinary session. It may act from here on.",
    "lift": "Continues as an ordinary session; the read-only framing above no longer holds.",
}


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a transcript needs to know beside its log.

    `titles` are sessions by log id, all that `named` finds; `sides` those forked at each boundary (a prefix length).
    """

    id: str
    parent: Link | None = None
    seed_length: int = 0
    read_only: bool = False
    titles: Mapping[str, Link] = field(default_factory=dict)
    sides: Mapping[int, Sequence[Link]] = field(default_factory=dict)
    off_surface: Mapping[int, str] = field(default_factory=dict)  # seq → "retracted" | "summarised", by later events


def cited(events: Iterable[Event]) -> set[str]:
    """The log ids of the sides that handbacks in `events` name."""
    return {log_id for event in events for log_id in origins(source_of(event))}


def named(events: Iterable[Event]) -> set[str]:
    """The log ids of all sessions that `events` name: of handbacks and of quotes."""
    events = list(events)
    return cited(events) | {quote.log_id for event in events for quote in quotes(event)}


def render_item(item: Item) -> str:
    """The item's HTML: one element with `item.key` as its id."""
    return render_to_string(f"transcript/{item.kind}.html", {"item": item})


def render_items(items: Iterable[Item], *, swap: bool = False) -> SafeString:
    """The items' HTML in order; with `swap` marked to take the place of the elements that have their ids."""
    html = (render_item(item) for item in items)
    return mark_safe("".join(one.replace("<li ", '<li hx-swap-oob="true" ', 1) if swap else one for one in html))


class Transcript:
    """A fold over the events of a log, or of a window of it that starts between turns."""

    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self._items: dict[str, Item] = {}
        self._turn: OpenTurn | None = None
        self._last_end: TurnEnd | None = None
        self._compactions: dict[str, Compaction] = {}

    @property
    def items(self) -> list[Item]:
        return list(self._items.values())

    def apply(self, event: Event) -> list[Item]:
        """Fold one event in; returns the items that it created or changed, in page order."""
        changed = {item.key: item for item in self._leave_surface(event)}
        if handler := _HANDLERS.get(event.type):
            changed |= {item.key: item for item in handler(self, event)}
        if event.seq == self.info.seed_length - 1 and self.info.parent:
            seed = Seed(
                session=self.info.id, key=self._key("seed"), seq=event.seq, time=event.time, parent=self.info.parent
            )
            changed[seed.key] = seed
        for key, item in changed.items():
            self._items.setdefault(key, item)
        if sides := self.info.sides.get(event.seq + 1):
            changed |= {item.key: item for item in self._mark(sides)}
        return list(changed.values())

    def apply_all(self, events: Iterable[Event]) -> Transcript:
        for event in events:
            self.apply(event)
        return self

    # -- one handler for each type of event ------------------------------------------------------

    def _turn_start(self, event: Event) -> Iterator[Item]:
        self._turn = OpenTurn(event.data["turn"], event.time)
        if self._last_end and self._last_end.can_continue:
            self._last_end.can_continue = False
            yield self._last_end

    def _user_message(self, event: Event) -> Iterator[Item]:
        source = source_of(event)
        if source.get("kind") not in ("user", None):
            yield from self._context_message(event)
            return
        if event.surface_op != "append":
            return
        message = event.data
        html = markdown.to_html(ev.text_of(message))
        attached = [tools.attachment_name(b) for b in message["content"] if b.get("type") == "image"]
        if self._turn and self._turn.asked_seq is None:
            self._turn.asked_seq = event.seq
        quoted = [self._quote(number, quote) for number, quote in enumerate(quotes(event), 1)]
        yield UserMessage(**self._place(event), html=html, attachments=attached, quotes=quoted)
        yield from self._turn_heading(event)

    def _quote(self, number: int, quote: Quote) -> Quoted:
        origin = self.info.titles.get(quote.log_id)
        if origin is None or not origin.url:
            return Quoted(number, "", "", quote.cut)
        return Quoted(number, origin.session, f"{origin.url}#{origin.session}-e{quote.seq}", quote.cut)

    def _context_message(self, event: Event) -> Iterator[Item]:
        source = source_of(event)
        form = str(source.get("form", "")) if source.get("plugin") == ev.OWN_PLUGIN else ""
        if event.surface_op != "append" and form != "retraction":
            return
        if form == "handback":
            yield self._note(event, source)
        else:
            said = _ASIDES.get(form) or summary(source)
            yield Aside(**self._place(event), form=form or "context", said=said, text=plain(ev.text_of(event.data)))
        yield from self._turn_heading(event)

    def _note(self, event: Event, source: Mapping[str, Any]) -> Note:
        text = ev.text_of(event.data)
        _, _, body = text.partition("\n")
        unknown = Link("a side session", "")
        return Note(
            **self._place(event),
            origins=[self.info.titles.get(log_id, unknown) for log_id in origins(source)],
            html=markdown.to_html(body.lstrip("\n")),
            characters=len(text),
            truncated=bool(source.get("truncated")),
            edited=bool(source.get("edited")),
            state=self.info.off_surface.get(event.seq, "live"),  # type: ignore[arg-type]
            retractable=not self.info.read_only,
        )

    def _assistant_message(self, event: Event) -> Iterator[Item]:
        message = event.data["message"]
        yield from self._turn_heading(event)
        if self._turn and (usage := event.data.get("usage")):
            self._turn.spend(usage)
        parts = [p for p in (_part(block) for block in message["content"]) if p]
        if parts:
            answer = Answer(**self._place(event), parts=parts, interrupted=bool(event.data.get("interrupted")))
            if self._turn:
                self._turn.answer_seq = event.seq
            yield answer
        calls = [b for b in message["content"] if b.get("type") == "tool-call"]
        for n, call in enumerate(calls, 1):
            yield self._tool_card(event, f"e{event.seq}-{n}", call["id"], call["name"], call["arguments"])

    def _tool_call(self, event: Event) -> Iterator[Item]:
        data = event.data
        card = self._called(data["callId"])
        if card is None:
            card = self._tool_card(event, f"e{event.seq}", data["callId"], data["name"], data["arguments"])
        card.state, card.note, card.started = "running", "running", event.time
        yield card

    def _tool_result(self, event: Event) -> Iterator[Item]:
        if event.surface_op != "append":
            return
        call_id = event.data["message"]["source"]["callId"]
        card = self._called(call_id) or self._tool_card(event, f"e{event.seq}", call_id, "tool", "")
        tools.settle(card, event)
        yield card

    def _approval_asked(self, event: Event) -> Iterator[Item]:
        if card := self._called(event.data.get("callId")):
            card.state, card.note = "waiting", "waits for you"
            card.approval, card.why_asked = event.data["id"], line(str(event.data.get("reason") or ""), 300)
            yield card

    def _approval_decided(self, event: Event) -> Iterator[Item]:
        for card in self._turn.calls.values() if self._turn else ():
            if card.approval == event.data["id"]:
                card.state, card.approval = "called", ""
                card.note = str(event.data.get("outcome", "")).replace("-", " ")
                yield card

    def _retry(self, event: Event) -> Iterator[Item]:
        data = event.data
        most = f" of {data['maxRetries']}" if "maxRetries" in data else ""
        reason = line(str(data.get("failure", {}).get("message", "")), 300)
        wait, attempt = words.duration(data.get("delayMs", 0)), data.get("retry", 1)
        said = f"The provider did not answer; trying again in {wait} (attempt {attempt}{most})."
        yield from self._turn_heading(event)
        yield Aside(**self._place(event), form="retry", said=said, text=reason)

    def _turn_end(self, event: Event) -> Iterator[Item]:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        reason = event.data["reason"]
        happened, advice = words.outcome(reason)
        if not happened and turn.silent:
            happened = "The model ended the turn without a text."
        if turn.heading:
            turn.heading.running, turn.heading.figures = False, turn.figures(event.time)
            turn.heading.hint = turn.hint()
            yield turn.heading
        for card in turn.calls.values():
            if card.state in ("called", "waiting", "running"):
                card.state, card.note, card.approval = "failed", "no result", ""
                yield card
        self._last_end = TurnEnd(
            session=self.info.id,
            key=self._key(f"t{turn.number}-end"),
            seq=event.seq,
            time=event.time,
            turn=turn.number,
            reason=str(reason.get("kind", "")),
            happened=happened,
            advice=advice,
            can_continue=reason.get("kind") == "interrupted" and not self.info.read_only,
            asked_seq=turn.asked_seq,
            answer_seq=turn.answer_seq,
        )
        yield self._last_end

    def _compaction_start(self, event: Event) -> Iterator[Item]:
        item = Compaction(**self._place(event), said="Summarising older turns …")
        self._compactions[event.data["compactionId"]] = item
        yield item

    def _compaction_summary(self, event: Event) -> Iterator[Item]:
        if item := self._compactions.get(event.data["compactionId"]):
            replaced = words.plural(len(event.data.get("shadowedSeqs", ())), "message")
            item.said = f"Summarised for the model: {replaced} above. You still see all of them."
            item.html = markdown.to_html(ev.text_of({"content": event.data["summary"]}))
            yield item

    def _compaction_end(self, event: Event) -> Iterator[Item]:
        if item := self._compactions.pop(event.data["compactionId"], None):
            item.running = False
            if error := event.data.get("error"):
                item.failed, item.html = True, None
                item.said = f"Summarising failed; nothing was changed. {line(str(_message_of(error)), 300)}"
            yield item

    # -- parts -----------------------------------------------------------------------------------

    def _turn_heading(self, event: Event) -> Iterator[Item]:
        """The heading of the open turn, the first time that something in it is shown."""
        if self._turn and not self._turn.heading:
            number = self._turn.number
            heading = Turn(
                session=self.info.id,
                key=self._key(f"t{number}"),
                seq=event.seq,
                time=event.time,
                turn=number,
                figures=f"Turn {number} · running",
            )
            self._turn.heading = heading
            yield heading

    def _tool_card(self, event: Event, key: str, call_id: str, name: str, arguments: str) -> ToolCard:
        card = ToolCard(
            **{**self._place(event), "key": self._key(key)},
            name=line(name, 80),
            subject=tools.subject(arguments),
            arguments=tools.pretty(arguments),
        )
        if self._turn:
            self._turn.calls[call_id] = card
        return card

    def _called(self, call_id: str | None) -> ToolCard | None:
        return self._turn.calls.get(call_id) if self._turn and call_id else None

    def _mark(self, sides: Sequence[Link]) -> Iterator[Item]:
        """Show at the last item between turns that `sides` were forked after it."""
        for item in reversed(self._items.values()):
            if item.turn is None or isinstance(item, TurnEnd):
                item.sides += sides
                yield item
                return

    def _leave_surface(self, event: Event) -> Iterator[Item]:
        """The notes that this event's replacement takes from the model's view."""
        if not isinstance(event.surface_op, Replace):
            return
        state = "retracted" if source_of(event).get("form") == "retraction" else "summarised"
        cut = {event.surface_op.start, event.surface_op.end, *(event.source_event_seqs or ())}
        for seq in sorted(cut):
            note = self._items.get(self._key(f"e{seq}"))
            if isinstance(note, Note) and note.state == "live":
                note.state = state  # type: ignore[assignment]
                yield note

    def _place(self, event: Event) -> dict[str, Any]:
        turn = self._turn.number if self._turn else None
        key = self._key(f"e{event.seq}")
        return {"session": self.info.id, "key": key, "seq": event.seq, "time": event.time, "turn": turn}

    def _key(self, name: str) -> str:
        return f"{self.info.id}-{name}"


_HANDLERS: Final[dict[str, Callable[[Transcript, Event], Iterator[Item]]]] = {
    ev.TURN_START: Transcript._turn_start,
    ev.USER_MESSAGE: Transcript._user_message,
    ev.CONTEXT_MESSAGE: Transcript._context_message,
    ev.ASSISTANT_MESSAGE: Transcript._assistant_message,
    ev.TOOL_CALL: Transcript._tool_call,
    ev.TOOL_RESULT: Transcript._tool_result,
    ev.APPROVAL_ASKED: Transcript._approval_asked,
    ev.APPROVAL_DECIDED: Transcript._approval_decided,
    ev.LLM_RETRY: Transcript._retry,
    ev.TURN_END: Transcript._turn_end,
    ev.COMPACTION_START: Transcript._compaction_start,
    ev.COMPACTION_SUMMARY: Transcript._compaction_summary,
    ev.COMPACTION_END: Transcript._compaction_end,
}


def _part(block: Mapping[str, Any]) -> Part | None:
    kind = block.get("type")
    if kind == "text" and block["text"].strip():
        return Part("text", markdown.to_html(block["text"]))
    if kind == "reasoning" and block["text"].strip():
        return Part("reasoning", markdown.to_html(block["text"]), words.plural(len(block["text"].split()), "word"))
    return None


def _message_of(error: Any) -> Any:
    return error.get("message", "") if isinstance(error, dict) else error
