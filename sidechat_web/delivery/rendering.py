"""A session's transcript as it grows, and its streaming blocks: rendered once for all browsers on a feed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sidechat_web.core.events import (
    ASSISTANT_MESSAGE,
    CONTEXT_MESSAGE,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
    Event,
    Replace,
)
from sidechat_web.render.items import Item, Link
from sidechat_web.render.stream import Streaming, Update, streaming
from sidechat_web.render.transcript import SessionInfo, Transcript, cited, named, render_items
from sidechat_web.runtime.db import in_db
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from . import html
from .blocks import Block, Key

Info = Callable[[Session, list[Event]], SessionInfo]  # what a transcript of these events must know beside them

MOST_REPLAYED: Final = 500  # events; after a longer absence the page loads its pane anew


@dataclass(frozen=True, slots=True)
class Found:
    """What a fold of events needs of the store: what came before them in their turn, and notes that they take back."""

    info: SessionInfo
    before: Sequence[Event] = ()
    notes: Sequence[Event] = ()


class Rendering:
    """Lives on the event loop; entries are rendered in a worker thread, one reading at a time."""

    def __init__(self, info: Info) -> None:
        self._info = info
        self._transcript: Transcript | None = None
        self._folded = -1  # the seq up to which `_transcript` is folded
        self._sides: Mapping[int, Sequence[Link]] | None = None
        self._streams: dict[Key, Streaming] = {}
        self._fed: dict[Key, int] = {}  # how many code points of its block each stream has

    # -- entries ---------------------------------------------------------------------------------

    async def events(self, session: Session, after: int, until: int, events: list[Event]) -> dict[int, str]:
        """Seq → frame of the `events` that were read from `after` to `until`."""
        transcript, self._transcript = (self._transcript, None) if self._folded == after else (None, None)
        if events and transcript is None:
            found = await in_db(_find, session, events, self._info, before=True)
            transcript = await asyncio.to_thread(Transcript(found.info).apply_all, found.before)
        elif transcript is None:
            return {}
        elif named(events) or any(map(_replaced, events)):
            found = await in_db(_find, session, events, self._info, before=False)
        else:
            found = Found(transcript.info)
        transcript.info = found.info
        frames = await asyncio.to_thread(_frames, transcript, events, found)
        self._transcript, self._folded = transcript, until
        return frames

    async def replay(self, session_id: str, after: int, until: int) -> str:
        """One frame of what the events from `after` to `until` made or changed; `gap` where they are too many."""
        session, events = await in_db(_read, session_id, after, until)
        if len(events) > MOST_REPLAYED:
            return html.gap(until)
        if not events:
            return ""
        found = await in_db(_find, session, events, self._info, before=True)
        return await asyncio.to_thread(_one_frame, events, found, until)

    async def marks(self, session: Session) -> str:
        """The entries at which sides left, where that changed since it was asked last; nothing at first."""
        info = await in_db(self._info, session, [])
        before, self._sides = self._sides, info.sides
        if before is None or before == info.sides:
            return ""
        places = [at for at in before.keys() | info.sides.keys() if before.get(at) != info.sides.get(at)]
        turns = await in_db(_turns_ending_at, session, sorted(places))
        return await asyncio.to_thread(_marked, turns, info)

    # -- streaming blocks ------------------------------------------------------------------------

    def extend(self, key: Key, block: Block, offset: int, text: str) -> str:
        """The frames for `text`, which `block` has at `offset`; empty where it cannot be shown well yet."""
        if key not in self._streams:
            return "".join(self.flush(earlier) for earlier in list(self._streams)) + self.so_far(key, block)
        return html.block(key, block.kind, self._feed(key, block, offset, text))

    def flush(self, key: Key) -> str:
        """The frames for what is held back of a block."""
        stream = self._streams.get(key)
        return html.block(key, "", stream.flush()) if stream else ""

    def so_far(self, key: Key, block: Block) -> str:
        """The frames that show a block to one who comes late."""
        if key not in self._streams:
            self._streams[key], self._fed[key] = streaming(block.kind != "tool-args"), 0
        if self._fed[key] < block.length:
            self._feed(key, block, 0, block.text)
        return html.block(key, block.kind, self._streams[key].so_far(), new=True)

    def _feed(self, key: Key, block: Block, offset: int, text: str) -> list[Update]:
        """Give the stream what it lacks up to the end of `text`: pieces may repeat, or come while nobody looks."""
        fed, end = self._fed[key], offset + len(text)
        if end <= fed:
            return []
        self._fed[key] = end
        return self._streams[key].feed(text[fed - offset :] if fed >= offset else block.text[fed:end])

    def keep(self, keys: Iterable[Key]) -> None:
        """Forget all streaming blocks but these."""
        self._streams = {key: self._streams[key] for key in keys if key in self._streams}
        self._fed = {key: self._fed[key] for key in self._streams}


def _read(session_id: str, after: int, until: int) -> tuple[Session, list[Event]]:
    session = Session.objects.select_related("parent").get(pk=session_id)
    return session, list(islice(reading.events(session, after=after, stop=until + 1), MOST_REPLAYED + 1))


def _find(session: Session, events: list[Event], info: Info, *, before: bool) -> Found:
    turn = _turn_before(session, events[0].seq) if before else []
    notes = _taken_back(session, events)
    return Found(info(session, [*turn, *notes, *events]), turn, notes)


def _turn_before(session: Session, seq: int) -> list[Event]:
    """The events before `seq` of the turn that is open there."""
    last = reading.tail(session, 1, before=seq, types=[TURN_START, TURN_END])
    if not last or last[0].type == TURN_END:
        return []
    return list(reading.events(session, after=last[0].seq - 1, stop=seq))


def _turns_ending_at(session: Session, places: Sequence[int]) -> list[list[Event]]:
    """For each boundary, the events from the start of the turn before it."""
    out = []
    for place in places:
        started = reading.tail(session, 1, before=place, types=[TURN_START])
        out.append(list(reading.events(session, after=started[0].seq - 1 if started else -1, stop=place)))
    return out


def _taken_back(session: Session, events: list[Event]) -> list[Event]:
    """The notes that these events take off the surface."""
    seqs = {seq for event in events for seq in _replaced(event)}
    if not seqs:
        return []
    messages = reading.events(session, after=min(seqs) - 1, stop=max(seqs) + 1, types=[CONTEXT_MESSAGE, USER_MESSAGE])
    return [event for event in messages if event.seq in seqs and cited([event])]


def _replaced(event: Event) -> Sequence[int]:
    return event.source_event_seqs or () if isinstance(event.surface_op, Replace) else ()


def _frames(transcript: Transcript, events: list[Event], found: Found) -> dict[int, str]:
    return {
        event.seq: html.items(event.seq, render_items(_changed(transcript, event, found).values()), _settles(event))
        for event in events
    }


def _one_frame(events: list[Event], found: Found, until: int) -> str:
    transcript = Transcript(found.info).apply_all(found.before)
    changed: dict[str, Item] = {}
    for event in events:
        changed |= _changed(transcript, event, found)
    settled = [token for event in events for token in _settles(event)]
    return html.items(until, render_items(changed.values()), settled)


def _marked(turns: Iterable[list[Event]], info: SessionInfo) -> str:
    return html.known_items(render_items(item for turn in turns for item in Transcript(info).apply_all(turn).items))


def _changed(transcript: Transcript, event: Event, found: Found) -> dict[str, Item]:
    """The entries that `event` makes or changes, by key."""
    items = transcript.apply(event)
    if replaced := _replaced(event):
        older = Transcript(found.info).apply_all(note for note in found.notes if note.seq in replaced)
        items += [item for item in older.apply(event) if item.seq in replaced]
    return {item.key: item for item in items}


def _settles(event: Event) -> list[str]:
    """The streamed steps that are in the log now, or void."""
    if event.type == ASSISTANT_MESSAGE:
        return [f"{event.data['turn']}.{event.data['step']}"]
    return [str(event.turn)] if event.type == TURN_END else []
