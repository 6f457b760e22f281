"""What a transcript consists of. Each kind has one template; templates derive nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal

from django.utils.safestring import SafeString

from . import words


@dataclass(frozen=True, slots=True)
class Link:
    """A session by name; `url` is empty where it can no longer be opened."""

    title: str
    url: str
    session: str = ""  # its id, where something in it is pointed at


@dataclass(slots=True, kw_only=True)
class Item:
    """One entry of a transcript. `key` is its DOM id, the same for all its life and unique on a page.

    `sides` are those forked right after this item.
    """

    kind: ClassVar[str]
    session: str
    key: str
    seq: int
    time: int
    turn: int | None = None
    sides: list[Link] = field(default_factory=list)

    @property
    def at(self) -> datetime:
        return words.moment(self.time)


@dataclass(frozen=True, slots=True)
class Quoted:
    """Where a numbered quote of a message stands; `url` is empty where it can no longer be opened."""

    number: int
    session: str
    url: str
    cut: bool


@dataclass(slots=True, kw_only=True)
class UserMessage(Item):
    kind: ClassVar[str] = "user"
    html: SafeString
    attachments: list[str] = field(default_factory=list)
    quotes: list[Quoted] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part:
    """A block of an answer, in the order in which the model wrote them."""

    kind: Literal["text", "reasoning"]
    html: SafeString
    size: str = ""


@dataclass(slots=True, kw_only=True)
class Answer(Item):
    kind: ClassVar[str] = "answer"
    parts: list[Part]
    interrupted: bool = False


ToolState = Literal["called", "waiting", "running", "done", "failed"]


@dataclass(slots=True, kw_only=True)
class ToolCard(Item):
    """A tool call with its result, once there is one. `note` is the state in words, or the time it took."""

    kind: ClassVar[str] = "tool"
    name: str
    subject: str
    arguments: str
    state: ToolState = "called"
    note: str = ""
    result: str = ""
    diff: SafeString | None = None
    added: int = 0
    removed: int = 0
    started: int | None = None
    approval: str = ""  # the open question whether it may run
    why_asked: str = ""


@dataclass(slots=True, kw_only=True)
class Note(Item):
    """A handback card, from the stored message alone. `origins` are the sides that it came from."""

    kind: ClassVar[str] = "note"
    origins: list[Link]
    html: SafeString
    characters: int
    truncated: bool = False
    edited: bool = False
    state: Literal["live", "retracted", "summarised"] = "live"
    retractable: bool = True


@dataclass(slots=True, kw_only=True)
class Aside(Item):
    """One quiet line about something that is not conversation; `text` opens under it."""

    kind: ClassVar[str] = "aside"
    form: str
    said: str
    text: str = ""


@dataclass(slots=True, kw_only=True)
class Turn(Item):
    """The heading of a turn: its figures, or that it is running."""

    kind: ClassVar[str] = "turn"
    figures: str
    running: bool = True
    hint: str = ""


@dataclass(slots=True, kw_only=True)
class TurnEnd(Item):
    """The foot of a turn: what happened, unless it simply completed, and what can be done from here."""

    kind: ClassVar[str] = "turn-end"
    reason: str
    happened: str = ""
    advice: str = ""
    can_continue: bool = False
    asked_seq: int | None = None  # the user's message that the turn began with
    answer_seq: int | None = None  # the turn's last answer


@dataclass(slots=True, kw_only=True)
class Compaction(Item):
    kind: ClassVar[str] = "compaction"
    said: str
    running: bool = True
    failed: bool = False
    html: SafeString | None = None


@dataclass(slots=True, kw_only=True)
class Seed(Item):
    """Where a fork leaves its parent."""

    kind: ClassVar[str] = "seed"
    parent: Link | None
