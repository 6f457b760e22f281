"""The sidebar: sessions with their sides nested under them, newest activity first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from sidechat_web.core.words import Piece
from sidechat_web.render import links, words
from sidechat_web.render.text import plain
from sidechat_web.storage import search
from sidechat_web.storage.access import visible
from sidechat_web.storage.models import Session

from .access import PageRequest

MOST_ROOTS: Final = 80
_LOUDEST: Final = ("waiting", "failed", "running", "unread", "idle")


@dataclass(frozen=True, slots=True)
class Found:
    """A message that a search found: the text around the words, and where it stands."""

    pieces: list[Piece]
    url: str


@dataclass(slots=True)
class Row:
    """One session of the tree. `mark` is its own state, `below` the loudest state under it."""

    id: str
    title: str
    url: str
    kind: str
    mark: str
    said: str
    updated_at: int
    pinned: bool
    current: bool
    orphaned: bool
    hit: Found | None = None
    children: list[Row] = field(default_factory=list)

    @property
    def loudest(self) -> str:
        return min([self.mark, *(child.loudest for child in self.children)], key=_LOUDEST.index)

    @property
    def heard(self) -> str:
        """What only a dot shows, for those who do not see it."""
        return "new" if self.mark == "unread" else ""

    @property
    def activity(self) -> int:
        return max([self.updated_at, *(child.activity for child in self.children)])


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Forest:
    groups: list[Group]
    query: str = ""
    archived: bool = False
    more: int = 0  # the offset of the next part, 0 where there is none
    empty: str = ""


@login_required
@require_GET
@never_cache
def sessions(request: PageRequest) -> HttpResponse:
    """The tree, searched by `?q=`; as a page of its own it is the phone's first column."""
    found = forest(
        request.user,
        query=request.GET.get("q", "").strip(),
        archived=request.GET.get("archived") == "1",
        offset=int(request.GET.get("offset", "0")) if request.GET.get("offset", "0").isdigit() else 0,
        current=set(request.GET.getlist("current")),
    )
    template = "tree/list.html" if request.htmx and not request.htmx.history_restore_request else "pages/sessions.html"
    return render(request, template, {"tree": found, "title": "Sessions"})


def forest(
    user: User, *, query: str = "", archived: bool = False, offset: int = 0, current: Iterable[str] = ()
) -> Forest:
    """The trees of `user`'s sessions that match, newest activity first, grouped by its day.

    Only the rows that are shown are read whole.
    """
    sessions = visible(user)
    found = search.matching(sessions, query).filter(archived=archived)
    trees = _Trees(found.order_by("created_at", "id").values_list("pk", "parent_id", "updated_at", "pinned"))
    shown = trees.roots[offset : offset + MOST_ROOTS]
    rows = _rows(trees.below(shown), set(current), sessions, query)
    for pk, row in rows.items():
        row.children = [rows[child] for child in trees.children.get(pk, ())]
    return Forest(
        groups=_groups([rows[pk] for pk in shown]),
        query=query,
        archived=archived,
        more=offset + MOST_ROOTS if len(trees.roots) > offset + MOST_ROOTS else 0,
        empty="" if trees.roots else _why_empty(query, archived),
    )


class _Trees:
    """The ids of sessions as trees: a session whose parent is not among them is a root."""

    def __init__(self, found: Iterable[tuple[str, str | None, int, bool]]) -> None:
        listed = list(found)
        known = {pk for pk, *_ in listed}
        self.children: dict[str, list[str]] = {}
        self._activity = {pk: at for pk, _, at, _ in listed}
        parents = {pk: parent for pk, parent, *_ in listed if parent in known}
        for pk, parent in parents.items():
            self.children.setdefault(str(parent), []).append(pk)
        for pk, _, at, _ in listed:
            while above := parents.get(pk):
                pk = above
                self._activity[pk] = max(self._activity[pk], at)
        roots = [(not pinned, -self._activity[pk], pk) for pk, _, _, pinned in listed if pk not in parents]
        self.roots = [pk for *_, pk in sorted(roots)]

    def below(self, roots: Iterable[str]) -> list[str]:
        """These sessions and all under them."""
        out = list(roots)
        for pk in out:
            out += self.children.get(pk, ())
        return out


def _rows(ids: list[str], current: set[str], sessions: QuerySet[Session], query: str) -> dict[str, Row]:
    shown = list(Session.objects.filter(pk__in=ids).select_related("parent"))
    hits = search.newest_hits(sessions, shown, query)
    return {session.pk: _row(session, current, hits.get(session.pk)) for session in shown}


def _row(session: Session, current: set[str], hit: search.Hit | None) -> Row:
    mark = _mark(session)
    return Row(
        id=session.pk,
        title=links.name(session),
        url=links.url(session),
        kind=session.kind,
        mark=mark,
        said=_said(session, mark),
        updated_at=session.updated_at,
        pinned=session.pinned,
        current=session.pk in current,
        orphaned=session.kind == Session.Kind.SIDE and not links.has_parent(session),
        hit=found(session, hit) if hit else None,
    )


def found(session: Session, hit: search.Hit) -> Found:
    """A hit as it is shown."""
    return Found([Piece(plain(piece.text), piece.found) for piece in hit.snippet], links.message(session, hit.seq))


def _mark(session: Session) -> str:
    if session.status != "idle":
        return session.status
    if session.unread and (session.last_reason or {}).get("kind") == "error":
        return "failed"
    return "unread" if session.unread else "idle"


def _said(session: Session, mark: str) -> str:
    """The state in words, or when the session was last active."""
    named = {"running": "running", "waiting": "needs you", "failed": "failed"}
    return named.get(mark) or ago(session.updated_at)


def ago(ms: int) -> str:
    """`now`, `5 min`, `2 h`, `Fri`, `3 May`, `2024`."""
    then, now = words.moment(ms), timezone.localtime()
    seconds = (now - then).total_seconds()
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h"
    if seconds < 6 * 86_400:
        return f"{then:%a}"
    return f"{then.day} {then:%b}" if then.year == now.year else f"{then.year}"


def _groups(rows: list[Row]) -> list[Group]:
    today = timezone.localdate()
    groups: dict[str, list[Row]] = {}
    for row in rows:
        title = "Pinned" if row.pinned else "Today" if words.moment(row.activity).date() == today else "Earlier"
        groups.setdefault(title, []).append(row)
    return [Group(title, found) for title, found in groups.items()]


def _why_empty(query: str, archived: bool) -> str:
    if query:
        return f"Nothing was said, and no session is called, “{query}”."
    return "Nothing is archived." if archived else "No sessions yet."
