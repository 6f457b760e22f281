"""What every reader of another program's sessions gives: lines of a log in our format, and who they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from sidechat_web.core import codec
from sidechat_web.core.errors import LogUnreadable
from sidechat_web.core.events import Event

from .header import Header


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an accepted log: an event, or several chunk events with seqs `first..last`.

    `number` is that of the file's line that it comes from. `text` stands in the log verbatim, without the
    newline. `event` is None for chunks; where `upgraded`, it has today's shape and the text an older one.
    `latest` is the latest time of the line's events.
    """

    number: int
    text: bytes
    first: int
    last: int
    time: int
    latest: int
    event: Event | None
    upgraded: bool = False

    def events(self) -> list[Event]:
        """All events of the line, chunks unpacked."""
        return codec.decode(self.text) if self.event is None else [self.event]


class NothingYet(LogUnreadable):
    """A file of a known kind that holds no message, at least not yet."""


class Incoming(Protocol):
    """A log that is being read. What was given out is provisional until an iteration has ended: a refusal may
    come with the last byte (see LogRefused). Read it whole with `lines`, or as it grows with `more`.

    `header_line` is empty where the log is told anew in our own events; `program` names who wrote it. Where the
    file does not `grow`, it can only be read whole.
    """

    name: str | None
    program: str
    header: Header
    header_line: bytes
    grows: bool

    @property
    def length(self) -> int:
        """How many events were given so far."""
        ...

    @property
    def offset(self) -> int:
        """The byte of the file from which `more` reads on."""
        ...

    @property
    def lost(self) -> list[str]:
        """What of the file, as far as it was read, the log does not keep; for people."""
        ...

    @property
    def patience(self) -> float | None:
        """After how many seconds without growth `settle` has something to add; None while it has not."""
        ...

    def recall(self, known: dict[str, Any]) -> None:
        """Before reading: what `known` said after an earlier reading of the same log."""
        ...

    def known(self) -> dict[str, Any]:
        """What a later reading of the same log needs in order to give the same lines."""
        ...

    def lines(self) -> Iterator[Line]:
        """All lines of the file; once, and nothing after it."""
        ...

    def more(self, stream: BinaryIO) -> Iterator[Line]:
        """The lines that are complete now and were not given yet. `stream` is the same file, opened anew."""
        ...

    def settle(self) -> Iterator[Line]:
        """The lines that end what only its writer's silence ends."""
        ...
