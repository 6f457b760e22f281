"""One session's growth, read once at each bell and shared by all its viewers in this process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sidechat_web.core.events import ASSISTANT_CHUNK, ASSISTANT_MESSAGE, STEP_START, TURN_END, TURN_START, Event
from sidechat_web.runtime.db import in_db
from sidechat_web.runtime.live import Delta, Topic

from . import frames, html, reader
from .blocks import Key, LiveBlocks, message_texts
from .reader import Face, Mark, Reading, State
from .rendering import Info, Rendering
from .tape import Frame, Tape
from .viewer import Viewer

RETRY_SECONDS: Final = 0.5
_TOPICS: Final[tuple[Topic, ...]] = ("log", "queue", "merges")
FLUSH_SECONDS: Final = 0.25
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kinds:
    """For whom frames must be made."""

    json: bool = False
    html: bool = False
    chunks: bool = False


class Feed:
    """Lives on the event loop while it has viewers.

    `cursor` is the last seq that it has read; `state` and `mark` are those of the log there.
    """

    def __init__(self, session_id: str, info: Info) -> None:
        self.session_id = session_id
        self.holders = 0  # sockets that are here or on their way
        self.tape, self.blocks = Tape(), LiveBlocks()
        self.cursor = -1
        self.state, self.mark = State("idle", None, None), Mark(0, 0, None)
        self.viewers: set[Viewer] = set()
        self._kinds = Kinds()
        self._rendering = Rendering(info)
        self._face: Face | None = None
        self._standing: dict[str, Frame] = {}  # the latest `queue` and `merges` frames
        self._topics: set[Topic] = set()
        self._bell = asyncio.Event()
        self._heard_delta = False
        self._step = (0, 0)  # the last turn and step that started in the log as it was read
        self._early: list[Delta] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._pump: asyncio.Task[None] | None = None
        self._opening = asyncio.get_running_loop().create_task(self._open(), context=contextvars.Context())

    # -- for the hub -----------------------------------------------------------------------------

    async def opened(self) -> bool:
        """Wait until the feed stands at the log's head; False where there is no such session any more."""
        return await asyncio.shield(self._opening)

    @contextmanager
    def showing(self, viewer: Viewer) -> Iterator[None]:
        """Serve `viewer` meanwhile."""
        self.viewers.add(viewer)
        self._count()
        if viewer.html:
            self._wake("row")
        try:
            yield
        finally:
            self.viewers.discard(viewer)
            self._count()

    def close(self) -> None:
        self._opening.cancel()
        if self._pump is not None:
            self._pump.cancel()

    def rang(self, topic: Topic) -> None:
        """Read what `topic` says may have changed; several bells before the reading are one."""
        if topic != "chunks" or self._kinds.chunks or self.blocks.gap:
            self._wake(topic)

    def streamed(self, delta: Delta) -> None:
        """Pass on what fits. A step that the log was not read to yet is a bell of its own, and waits for that."""
        self._heard_delta = True
        if (delta.turn, delta.step) > self._step:
            self._early.append(delta)
            self._wake("log")
        else:
            self._put_deltas(self.blocks.apply(delta))

    def saw(self, mark: Mark | None) -> None:
        """Compare with where the session's row stands now: finds what no bell announced."""
        if mark is None:
            self._wake("gone")
        elif not mark.same_events(self.mark):
            for topic in _TOPICS:
                self._wake(topic)
        if mark and mark.open_turn is not None and mark.next_seq > self.mark.next_seq and not self._heard_delta:
            self._wake("chunks")
        self._heard_delta = False

    # -- for viewers -----------------------------------------------------------------------------

    def hello(self) -> Frame:
        return Frame(
            frames.hello(self.session_id, self.cursor, self.state),
            html.hello(self.session_id, self.cursor, self.state),
        )

    def gap(self, seq: int) -> Frame:
        return Frame(frames.gap(seq), html.gap(seq))

    def so_far(self, key: Key, start: int, *, as_html: bool) -> Frame:
        """An open block from `start` on, for one who comes late; in HTML always the whole of it."""
        block = self.blocks[key]
        if as_html:
            return Frame(html=self._rendering.so_far(key, block), block=key, end=block.length)
        return Frame(frames.delta(Delta(*key, block.kind, start, block.text[start:])), block=key, end=block.length)

    async def replay_html(self, after: int, until: int) -> str:
        return await self._rendering.replay(self.session_id, after, until)

    def standing(self) -> Iterator[Frame]:
        """What holds now, beside the log."""
        yield self._status_frame()
        yield from self._standing.values()

    # -- reading ---------------------------------------------------------------------------------

    async def _open(self) -> bool:
        found = await in_db(reader.head, self.session_id)
        if found is None:
            return False
        self.cursor, self.state, self.mark, self._face = found.head, found.state, found.mark, found.face
        self._put_standing(found)
        self._step = found.step
        for delta in found.streamed:
            self.blocks.apply(delta)
        self._pump = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())
        return True

    def _wake(self, topic: Topic) -> None:
        self._topics.add(topic)
        self._bell.set()

    async def _run(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            topics, self._topics = self._topics, set()
            try:
                await self._read(topics)
            except Exception:
                _logger.exception("reading %s failed; trying again", self.session_id)
                await asyncio.sleep(RETRY_SECONDS)
                for topic in topics:
                    self._wake(topic)

    async def _read(self, topics: set[Topic]) -> None:
        kinds = self._kinds
        blocks = "chunks" in topics or self.blocks.gap
        found = await in_db(reader.read, self.session_id, self.cursor, topics, chunks=kinds.chunks, blocks=blocks)
        if found is None:
            for viewer in self.viewers:
                viewer.leave("deleted")
            return
        rendered = await self._rendered(found) if kinds.html else {}
        marks = await self._rendering.marks(found.session) if kinds.html and "row" in topics else ""
        self._leave_behind(kinds)
        self._put_reading(found, rendered, marks)

    async def _rendered(self, found: Reading) -> dict[int, str]:
        """Seq → frame for browsers. What cannot be rendered is a gap: the page says what is wrong with it."""
        try:
            return await self._rendering.events(found.session, self.cursor, found.head, found.events)
        except Exception:
            _logger.exception("rendering %s failed", self.session_id)
            return {event.seq: html.gap(event.seq) for event in found.events[-1:]}

    def _leave_behind(self, kinds: Kinds) -> None:
        """Viewers who joined during a reading that was not made for their kind take it from the log."""
        for viewer in self.viewers:
            if (viewer.html and not kinds.html) or (viewer.chunks and not kinds.chunks):
                viewer.resync()

    # -- onto the tape ---------------------------------------------------------------------------

    def _put_reading(self, found: Reading, rendered: dict[int, str], marks: str) -> None:
        for event in found.events:
            self._put_event(event, rendered.get(event.seq, ""))
        self.cursor, self.mark = found.head, found.mark
        self._put_early()
        for delta in found.streamed:
            self._put_deltas(self.blocks.apply(delta))
        if found.more:
            self._wake("log")
        else:
            self._put_state(found.state)
        for frame in self._put_standing(found):
            self._put(frame)
        if marks:
            self._put(Frame(html=marks))
        if found.face != self._face:
            self._face = found.face
            self._put(Frame(html=html.changed("face")))

    def _put_early(self) -> None:
        early, self._early = self._early, []
        for delta in early:
            self._put_deltas(self.blocks.apply(delta))

    def _put_event(self, event: Event, as_html: str) -> None:
        if event.type == ASSISTANT_MESSAGE:
            self._settle(event)
        self._put(Frame(frames.event(event), as_html, seq=event.seq, chunk=event.type == ASSISTANT_CHUNK))
        if event.type == TURN_START:
            self._put_state(State("running", event.turn, None))
        elif event.type == STEP_START:
            self._step = (event.data["turn"], event.data["step"])
        elif event.type == TURN_END and event.turn is not None:
            self.blocks.forget(event.turn)
            self._rendering.keep([])
            self._put_state(State("idle", None, event.data["reason"]))

    def _settle(self, event: Event) -> None:
        """The log has a step's blocks as a message: pass on what was missed of them, and let them go."""
        missed = self.blocks.settle(event.data["turn"], event.data["step"], message_texts(event))
        for piece in missed:
            key = (piece.turn, piece.step, piece.index)
            self._put(Frame(frames.delta(piece), block=key, end=piece.offset + len(piece.text)))
        self._rendering.keep(key for key, _ in self.blocks)

    def _put_deltas(self, pieces: Iterable[Delta]) -> None:
        for piece in pieces:
            key = (piece.turn, piece.step, piece.index)
            as_json = frames.delta(piece) if self._kinds.json else ""
            as_html = self._extend(key, piece.offset, piece.text) if self._kinds.html else ""
            self._put(Frame(as_json, as_html, block=key, end=piece.offset + len(piece.text)))

    def _extend(self, key: Key, offset: int, text: str) -> str:
        as_html = self._rendering.extend(key, self.blocks[key], offset, text)
        if not as_html and self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)
        return as_html

    def _flush(self) -> None:
        """Show what was held back, if nothing came that decided how."""
        self._flushing = None
        if as_html := "".join(self._rendering.flush(key) for key, _ in self.blocks):
            self._put(Frame(html=as_html))

    def _put_state(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._put(self._status_frame())

    def _put_standing(self, found: Reading) -> list[Frame]:
        """Note what waits; returns the frames that differ from those before."""
        new = {}
        for kind, listed in (("queue", found.queue), ("merges", found.merges)):
            if listed is not None:
                new[kind] = Frame(frames.items(kind, listed), html.changed(kind, len(listed)))
        changed = [frame for kind, frame in new.items() if frame != self._standing.get(kind)]
        self._standing |= new
        return changed

    def _put(self, frame: Frame) -> None:
        self.tape.append(frame)
        for viewer in self.viewers:
            viewer.wake()

    def _status_frame(self) -> Frame:
        return Frame(frames.status(self.state), html.status(self.state))

    def _count(self) -> None:
        self._kinds = Kinds(
            json=any(not v.html for v in self.viewers),
            html=any(v.html for v in self.viewers),
            chunks=any(v.chunks for v in self.viewers),
        )
        if not self._kinds.html:
            self._rendering.keep([])
