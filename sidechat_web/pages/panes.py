"""What the main column and the side panel show: everything a template needs, nothing left to derive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.conf import settings
from django.utils.safestring import SafeString

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.render import links, words
from sidechat_web.render.items import Link
from sidechat_web.render.transcript import render_items
from sidechat_web.runtime import queue, spending
from sidechat_web.runtime.providers import catalog
from sidechat_web.runtime.sidechat import side
from sidechat_web.runtime.views import session_json
from sidechat_web.storage import reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import QueueItem, Session

from . import history, slash
from .notes import MergeBar, Pending, merge_bar, pending
from .origins import origin


@dataclass(frozen=True, slots=True)
class Tab:
    """A side in the panel's row of tabs."""

    title: str
    url: str
    current: bool
    status: str
    unread: bool


@dataclass(frozen=True, slots=True)
class State:
    """The parts of a pane that change while its transcript grows."""

    session: Session
    title: str
    status: str
    status_words: str
    model: str
    context_percent: int | None
    context_said: str
    context_hint: str
    cached: str
    parent: Link | None
    orphaned: bool
    origin: list[str]
    knows: list[str]
    behind: bool
    queue: list[QueueItem]
    pending: list[Pending]
    merge_bar: MergeBar | None


@dataclass(frozen=True, slots=True)
class Pane:
    """One session on screen. `seq` is the last event that `transcript` includes, `older` where it starts.

    `home` is the page of the column beside which a side stands.
    """

    draft: ClassVar[bool] = False
    state: State
    url: str
    seq: int
    transcript: SafeString
    older: int | None
    own: bool
    inherited: str
    inherited_size: str
    read_only: str
    key: str
    commands: list[slash.Command]
    text: str = ""
    refusal: str = ""
    home: str = ""
    tabs: list[Tab] = field(default_factory=list)

    @property
    def session(self) -> Session:
        return self.state.session


@dataclass(frozen=True, slots=True)
class DraftPane:
    """The panel before the side exists: the first message makes it."""

    draft: ClassVar[bool] = True
    parent: Session
    at: int | None
    knows: list[str]
    key: str
    home: str
    text: str = ""
    refusal: str = ""
    tabs: list[Tab] = field(default_factory=list)


def pane(session: Session, *, before: int | None = None, text: str = "", refusal: str = "") -> Pane:
    own = session.kind == Session.Kind.SIDE
    shown = history.window(session, before=before, floor=session.own_from if own else 0)
    folded = history.transcript(session, shown)
    return Pane(
        state=state(session),
        url=links.url(session),
        seq=session.next_seq - 1,
        transcript=render_items(folded.items),
        older=shown.start if shown.more else None,
        own=own,
        inherited=_inherited(session) if own else "",
        inherited_size=_inherited_size(session) if own else "",
        read_only=_why_closed(session),
        key=new_id(),
        commands=slash.offered(session),
        text=text,
        refusal=refusal,
        home=links.page(str(session.parent_id)) if own else "",
        tabs=tabs(session.parent, session) if own and session.parent is not None else [],
    )


def draft_pane(parent: Session, *, at: int | None = None, text: str = "", refusal: str = "") -> DraftPane:
    home = links.page(parent.pk)
    return DraftPane(parent, at, _would_know(parent, at), new_id(), home, text, refusal, tabs(parent, None))


def state(session: Session) -> State:
    shape = session_json(session)
    is_side = session.kind == Session.Kind.SIDE
    used, window = shape["context"]["used"], shape["context"].get("window")
    known = side.knows(session) if is_side and not shape["promoted"] else None
    return State(
        session=session,
        title=links.name(session),
        status=session.status,
        status_words=words.status(session.status, session.open_turn),
        model=shape["model"],
        context_percent=min(100, round(100 * used / window)) if window else None,
        context_said=_context_said(used, window),
        context_hint=_context_hint(session, shape),
        cached=_first_cached(session) if is_side else "",
        parent=links.link(session.parent) if session.parent is not None and not session.parent.hidden else None,
        orphaned=session.parent is not None and session.parent.deleted_at is not None,
        origin=origin(session),
        knows=_knows(known) if known else [],
        behind=bool(known and known["behind"]),
        queue=list(queue.typed(session)),
        pending=pending(session),
        merge_bar=merge_bar(session) if is_side else None,
    )


def _context_said(used: int, window: int | None) -> str:
    """How full the window is; how much there is where no window is known."""
    if window:
        return f"{min(100, round(100 * used / window))} %"
    return f"{words.tokens(used)} tokens" if used else ""


def _context_hint(session: Session, shape: dict[str, Any]) -> str:
    """The meter in words: context, cached share and cost, as far as they are known."""
    used, window = shape["context"]["used"], shape["context"].get("window")
    said = [f"{used:,} of {window:,} tokens of context" if window else f"{used:,} tokens of context"]
    if (share := words.cached_share(shape["usage"])) is not None:
        said.append(f"{share} % of all input came from the cache")
    if (cost := spending.spent(session)).priced:
        said.append(f"{words.dollars(cost.dollars)} so far{'' if cost.whole else ', where prices are known'}")
    return " · ".join(said)


def tabs(parent: Session, current: Session | None) -> list[Tab]:
    """The sides of `parent` as tabs of the panel, oldest first."""
    return [
        Tab(links.name(one), links.url(one), one == current, one.status, one.unread)
        for one in history.children(parent)
        if links.beside(one) and (not one.archived or one == current)
    ]


def _why_closed(session: Session) -> str:
    """Why nothing can be said here; empty where it can."""
    if session.read_only:
        return "This log belongs to another program: it can be read and forked."
    return (
        "" if session.may_write else "This session is shared with you for reading: you can ask on the side, or fork it."
    )


def default_model() -> tuple[str, str]:
    """`(model id, "")` of a new session, or `("", why there is none)`."""
    try:
        return catalog.model_id(catalog.default_config(wait=False)), ""
    except SidechatError as e:
        return "", e.message


def _inherited(session: Session) -> str:
    """What the folded row of inherited history says; empty where nothing was inherited."""
    if not session.own_from:
        return ""
    started = reading.tail(session, 1, before=session.own_from, types=[ev.TURN_START])
    return words.plural(started[0].turn or 1, "inherited turn") if started else "Inherited history"


def _inherited_size(session: Session) -> str:
    """How many tokens the inherited context has, where the last inherited answer says so."""
    answered = reading.tail(session, 1, before=session.own_from, types=[ev.ASSISTANT_MESSAGE])
    used = words.usage_total(answered[0].data.get("usage") or {}) if answered else 0
    return f"{words.tokens(used)} tokens" if used else ""


def _knows(known: dict[str, Any]) -> list[str]:
    """What a side knows, in sentences."""
    said = [_up_to(known["turn"])]
    if known["running_turn"]:
        said.append(f"Turn {known['running_turn']} was running and is not included.")
    if summary := known["summary"]:
        said.append(f"It inherits a summary in place of turns {summary[0]}–{summary[1]}.")
    if known["behind"]:
        said.append(f"Main is {words.plural(known['behind'], 'turn')} ahead.")
    if settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT:
        said.append("It has a system prompt of its own, so nothing is read from the cache.")
    return said


def _would_know(parent: Session, at: int | None) -> list[str]:
    """What a side that is opened now would know."""
    if at is not None:
        started = reading.tail(parent, 1, before=reading.next_turn_start(parent, at), types=[ev.TURN_START])
        return [_up_to((started[0].turn if started else 0) or 0)]
    if parent.open_turn is None:
        return [_up_to(parent.last_turn)]
    return [_up_to(parent.last_turn - 1), f"Turn {parent.open_turn} is running and is not included."]


def _up_to(turn: int) -> str:
    return f"Knows everything up to turn {turn}." if turn else "Starts empty: no turn has ended yet."


def _first_cached(session: Session) -> str:
    """The cached share of the side's first own request."""
    answers = reading.events(session, after=session.own_from - 1, types=[ev.ASSISTANT_MESSAGE])
    usage = next((e.data["usage"] for e in answers if e.data.get("usage")), None)
    share = words.cached_share(usage) if usage else None
    return "" if share is None else f"{share} % cached"
