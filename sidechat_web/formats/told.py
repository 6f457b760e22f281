"""Session files of other agents, a record a line, told as events of ours.

A `Teller` knows one program's records. `ToldLog` feeds it line by line; what cannot be read is left out and
counted, and so is what our log has no place for. The same lines always give the same events. Only where the
writer fell silent, the silence decides that a turn has ended: `pauses` remembers after which lines it did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Protocol

from sidechat_web.core import codec
from sidechat_web.core.errors import LogUnreadable
from sidechat_web.core.events import ASSISTANT_CHUNK, TURN_START, USER_MESSAGE, Event

from .header import Header
from .incoming import Line, NothingYet
from .plaintext import FrameEnd, Plaintext
from .retelling import Retelling
from .scan import parse_record

MAX_LINE_BYTES: Final = 1 << 26
_READ: Final = 1 << 16
_UNREAD: Final = "lines that could not be read"
_MAX_UNREAD: Final = 10_000
_AHEAD_BYTES: Final = 1 << 23  # within which a file says whose session it holds
_QUIET_SECONDS: Final = 60.0  # after which a turn that looks done, but whose end nothing marks, has ended
_QUIET_SECONDS_AT_END: Final = 2.0  # the same where its last answer says that it is the last


class Teller(Protocol):
    """Tells one session of one program. `lost` counts what it left out, under its name for people."""

    program: str
    told: Retelling
    lost: Counter[str]

    @property
    def last_word(self) -> bool:
        """Whether the last answer says that the turn ends with it."""
        ...

    def identify(self, entry: dict[str, Any]) -> Header | None:
        """Who the session is, as soon as the entries so far say it; called before `tell`, from the first on."""
        ...

    def tell(self, entry: dict[str, Any]) -> None: ...


class ToldLog:
    """See Incoming. Raises NothingYet where the file does not say yet whose session it holds."""

    header_line = b""

    def __init__(self, stream: BinaryIO, name: str | None, teller: Teller) -> None:
        self.name, self.program = name, teller.program
        self._teller = teller
        source = Plaintext(stream)
        self.grows = not source.compressed
        self._pieces = iter(source)
        self._splitter = _Splitter()
        self._unread: list[tuple[int, bytes | None]] = []
        self._pauses: list[int] = []
        self._paused = False  # nothing came since the last pause
        self.header = self._find_header()

    @property
    def length(self) -> int:
        return self._teller.told.at

    @property
    def offset(self) -> int:
        return self._splitter.end

    @property
    def lost(self) -> list[str]:
        late = self._teller.told.late_results
        counts = Counter(self._teller.lost) + Counter({"tool results that came after their turn": late})
        return [what if n == 1 else f"{what} ({n})" for what, n in counts.items()]

    @property
    def patience(self) -> float | None:
        if self._paused or not self._teller.told.open:
            return None
        return _QUIET_SECONDS_AT_END if self._teller.last_word else _QUIET_SECONDS

    def recall(self, known: dict[str, Any]) -> None:
        self._pauses = [number for number in known.get("pauses", []) if isinstance(number, int)]

    def known(self) -> dict[str, Any]:
        return {"pauses": self._pauses} if self._pauses else {}

    def lines(self) -> Iterator[Line]:
        yield from self._take_ahead()
        for piece in self._pieces:
            if not isinstance(piece, FrameEnd):
                yield from self._take(piece)
        yield from self.settle()

    def more(self, stream: BinaryIO) -> Iterator[Line]:
        assert self.grows
        yield from self._take_ahead()
        self._splitter.drop_tail()
        stream.seek(self.offset)
        while piece := stream.read(_READ):
            yield from self._take(piece)
        self._splitter.drop_tail()

    def settle(self) -> Iterator[Line]:
        number, told = self._splitter.number, self._teller.told
        before = told.at
        told.settle()
        if told.at > before:
            self._pauses.append(number)
        self._paused = True
        return _as_lines(number, told.take())

    def _find_header(self) -> Header:
        held = 0
        for piece in self._pieces:
            if isinstance(piece, FrameEnd):
                continue
            ahead = list(self._splitter.take(piece))
            self._unread += ahead
            for entry in filter(None, (_parsed(text) for _, text in ahead)):
                if header := self._teller.identify(entry):
                    return header
            held += len(piece)
            if held > _AHEAD_BYTES:
                raise LogUnreadable("does not say whose session it holds", file=self.name)
        raise NothingYet("holds no message", file=self.name)

    def _take_ahead(self) -> Iterator[Line]:
        unread, self._unread = self._unread, []
        for number, text in unread:
            yield from self._told(number, text)

    def _take(self, piece: bytes) -> Iterator[Line]:
        for number, text in self._splitter.take(piece):
            yield from self._told(number, text)

    def _told(self, number: int, text: bytes | None) -> Iterator[Line]:
        entry, told = _parsed(text), self._teller.told
        if entry is not None:
            self._teller.tell(entry)
        elif text is None or text.strip():
            self._teller.lost[_UNREAD] += 1
            if self._teller.lost[_UNREAD] > _MAX_UNREAD:
                raise LogUnreadable(f"more than {_MAX_UNREAD} lines cannot be read", line=number, file=self.name)
        if number in self._pauses:
            told.settle()
        events = told.take()
        if self._paused:
            self._went_on(events)
        yield from _as_lines(number, events)

    def _went_on(self, events: list[Event]) -> None:
        """Forget the last pause where the very next record is a prompt, which would have ended the turn just so."""
        self._paused = False
        if self._pauses and [event.type for event in events[:3:2]] == [TURN_START, USER_MESSAGE]:
            self._pauses.pop()


def _as_lines(number: int, events: list[Event]) -> Iterator[Line]:
    for event in events:
        chunk = event.type == ASSISTANT_CHUNK
        text = codec.encode(event)
        yield Line(number, text, event.seq, event.seq, event.time, event.time, None if chunk else event)


class _Splitter:
    """Lines of a stream with their numbers; one that is too long comes as None."""

    def __init__(self) -> None:
        self.number = 0  # of the last line that ended
        self.end = 0  # its last byte, exclusive
        self._fragment: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes) -> Iterator[tuple[int, bytes | None]]:
        if not self._size and not piece.strip(b"\n"):
            self.number, self.end = self.number + len(piece), self.end + len(piece)
            return
        *ended, rest = piece.split(b"\n")
        for part in ended:
            size = self._size + len(part)
            text = b"".join([*self._fragment, part]) if size <= MAX_LINE_BYTES else None
            self.number, self.end = self.number + 1, self.end + size + 1
            self._fragment, self._size = [], 0
            yield self.number, text
        self._size += len(rest)
        if self._size <= MAX_LINE_BYTES:
            self._fragment.append(rest)
        else:
            self._fragment = []

    def drop_tail(self) -> None:
        """Forget what follows the last line that ended."""
        self._fragment, self._size = [], 0


def _parsed(text: bytes | None) -> dict[str, Any] | None:
    try:
        return None if text is None else parse_record(text)
    except ValueError:
        return None
