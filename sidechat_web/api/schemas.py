"""Shapes of what the API takes and answers. Times are epoch ms; an absent optional field is omitted, not null.

A body refuses fields that it does not know, so that a misspelt one is told. Where a body takes null, null
means the same as leaving the field out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

MAX_SEQ = 2**53 - 1

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]  # no NUL: PostgreSQL cannot keep it
Title = Annotated[Text, Field(max_length=200)]
_NOT_BLANK = {"pattern": r"^[^\x00]*\S[^\x00]*$"}  # said in the document; the refusal has a code of its own
Said = Annotated[Text, Field(description="At most 1,000,000 characters.", json_schema_extra=_NOT_BLANK)]
NewTitle = Annotated[Title, Field(json_schema_extra=_NOT_BLANK)]
ModelId = Annotated[Text, Field(max_length=200, description="As `GET /api/models` lists it.")]
Seq = Annotated[StrictInt, Field(ge=0, le=MAX_SEQ)]
Mode = Literal["queue", "steer"]


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def Omitted(**more: Any) -> Any:
    """A field that is left out where it does not apply."""
    return Field(default=None, json_schema_extra=_without_default, **more)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class ErrorDetail(BaseModel):
    """`code` is stable and for programs, `message` for people."""

    code: str
    message: str
    line: int = Omitted(description="1-based line of a refused log")
    file: str = Omitted()
    reason: str = Omitted(description="Why a log was refused, without the place")


class Error(BaseModel):
    """A refusal."""

    error: ErrorDetail


class NewSession(Body):
    """`model` and `system` are pinned when the session is created."""

    title: Title | None = None
    model: ModelId | None = None
    system: Text | None = Field(default=None, max_length=1_000_000)
    cwd: Annotated[Text, Field(pattern=r"^/[^\x00]*$", max_length=4096)] | None = None


class SessionChange(Body):
    title: NewTitle | None = None
    model: Annotated[ModelId, Field(min_length=1)] | None = None
    archived: StrictBool | None = None
    pinned: StrictBool | None = None


class Quote(Body):
    """A selection: `text` as it was selected in the message at `seq`; of a text that still streams, the last seq.

    `session` is the one that was read, where it is not the one that the call itself names.
    """

    seq: Seq
    text: Said
    comment: Text | None = None
    session: str | None = None


class NewMessage(Body):
    """`queue`: a turn of its own. `steer`: before the running turn's next request.

    `quotes` stand numbered before the text, which may then be blank; a long one is cut with a mark.
    """

    text: Said
    mode: Mode = "queue"
    quotes: list[Quote] | None = None


class QueueChange(Body):
    """`position` is the item's new 0-based place among the pending ones."""

    text: Said | None = None
    position: Seq | None = None
    mode: Mode | None = None


class Retry(Body):
    """`seq` is that of the user's message; `text` replaces it."""

    seq: Seq
    text: Said | None = None


class NewFork(Body):
    """`side: false` makes an ordinary session, without framing or gate."""

    atSeq: Seq | None = None
    side: StrictBool = True
    title: Title | None = None
    model: ModelId | None = None
    text: Said | None = None
    quotes: list[Quote] | None = None


class Carried(Answer):
    """The earlier side (its log id) whose words a renewed side carries; `truncated` where some are missing."""

    session: str
    truncated: bool


class MergedNote(Answer):
    """A note of the side in its parent, and up to where it covers the side."""

    seq: int
    time: int
    throughSeq: int
    retracted: bool


class Side(Answer):
    """What a side knows and what became of its notes.

    `turn` is the last inherited turn (0: none); `runningTurn` the parent's turn that ran when the side was opened
    and is not included; `summary` the inherited turns that a summary stands for; `behind` how many turns the
    parent has ended since; `ownSystem` and `ownModel` whether they are not the inherited ones, which costs the cache;
    `firstCachedShare` the part of its first request that was read from the cache.
    """

    turn: int
    runningTurn: int = Omitted()
    summary: list[int] = Omitted()
    behind: int
    carried: Carried = Omitted()
    ownSystem: bool
    ownModel: bool
    firstCachedShare: float = Omitted()
    merged: list[MergedNote]
    mergeable: bool
    whyNot: ErrorDetail = Omitted()


class Renewal(Body):
    """Title and model are the old side's where none is named."""

    title: Title | None = None
    model: ModelId | None = None
    text: Said | None = None
    quotes: list[Quote] | None = None


class NewMerge(Body):
    """Without `text` the side is asked for the note.

    `steer`: into the running turn, before its next request. `sides`: one note out of several sides of one parent.
    """

    text: Said | None = None
    steer: StrictBool = False
    sides: list[str] | None = None


class Retraction(Body):
    seq: Seq


class Decision(Body):
    decision: Literal["allow-once", "allow-session", "deny"]


class NewShare(Body):
    """`may`: read, or read and write."""

    user: Annotated[Text, Field(min_length=1, max_length=150)]
    may: Literal["read", "write"] = "read"


class Share(Answer):
    user: str
    may: Literal["read", "write"]


class LastTurn(Answer):
    turn: int
    reason: dict[str, Any]


class Usage(Answer):
    """Tokens of the session's own requests; `inputTokens` excludes cached input."""

    inputTokens: int
    outputTokens: int
    cacheReadTokens: int
    reasoningTokens: int
    cost: float = Omitted()


class Context(Answer):
    """Tokens of context after the last request, and the model's window."""

    used: int
    window: int = Omitted()


class Match(Answer):
    """A message that a search found, and the text around its first word."""

    seq: int
    text: str


class Session(Answer):
    """One session. `id` names it here; `logId` is its log's own id, equal for sessions made here."""

    id: str
    logId: str
    title: str
    kind: Literal["main", "side", "fork", "mirror"]
    promoted: bool
    parentSession: str = Omitted()
    seedLength: int = Omitted()
    status: Literal["idle", "running", "waiting"]
    lastTurn: LastTurn = Omitted()
    model: str
    cwd: str = Omitted()
    createdAt: int
    updatedAt: int
    archived: bool
    pinned: bool
    unread: bool
    usage: Usage
    context: Context
    match: Match = Omitted(description="In a list that was searched: the newest message with all words.")


class SessionPage(Answer):
    """`next` is the cursor of the next page, null on the last one."""

    sessions: list[Session]
    next: str | None


class Deletion(Answer):
    """Ids of the deleted sessions, and of sides that live on without their parent."""

    deleted: list[str]
    kept: list[str]


class Event(Answer):
    """One entry of a log."""

    type: str
    seq: int
    time: int
    data: Any
    sourceEventSeqs: list[int] = Omitted()
    surfaceOp: Any = Omitted()
    ignorable: Literal[True] = Omitted()


class EventPage(Answer):
    """`next` is the last seq scanned, to be passed as `after`; null at the head of the log."""

    events: list[Event]
    next: int | None


class Message(Answer):
    id: str
    role: str
    content: list[dict[str, Any]]
    source: dict[str, Any]


class Messages(Answer):
    messages: list[Message]


class Request(Answer):
    """One attempt at a provider; `n` counts a session's own requests from 1."""

    n: int
    turn: int
    step: int
    attempt: int
    usage: dict[str, int] = Omitted()


class RequestBody(Request):
    """`body` is what was sent, byte for byte; null where the turn was imported."""

    body: str | None


class QueueItem(Answer):
    """`quotes` are the references of the quotes in `text`, by number."""

    id: str
    mode: Mode
    text: str
    quotes: list[dict[str, Any]] = Omitted()


class Accepted(Answer):
    item: QueueItem


class Queue(Answer):
    """Pending input, in order."""

    items: list[QueueItem]


class TurnStatus(Answer):
    status: Literal["idle", "running", "waiting"]


class Draft(Answer):
    """A note that was not sent yet."""

    text: str
    truncated: bool
    throughSeq: int


class DraftPending(Answer):
    """The side is still writing: ask again. Nothing is on its way into the parent, so there is no merge yet."""

    merge: None


class Merged(Answer):
    """The note stands in `session` (the parent) at `seq`."""

    merge: str
    session: str
    seq: int
    truncated: bool
    edited: bool


class MergePending(Answer):
    """The id of a merge that is still on its way: see `GET …/merges`."""

    merge: str


class Merge(Answer):
    """`sides` where the note is out of several; `side` is the first of them."""

    id: str
    side: str
    sides: list[str] = Omitted()
    parent: str
    state: Literal["drafting", "pending", "delivered", "failed", "cancelled", "retracted"]
    seq: int = Omitted()
    error: Any = Omitted()


class Approval(Answer):
    """A tool call that waits for the user; `arguments` is what the model wrote."""

    id: str
    session: str
    turn: int
    callId: str
    tool: str
    arguments: str
    reason: str
    createdAt: int


class Decided(Approval):
    decision: str


class Model(Answer):
    id: str
    provider: str
    name: str
    window: int = Omitted()


class Models(Answer):
    models: list[Model]


class Imported(Answer):
    sessions: list[Session]
