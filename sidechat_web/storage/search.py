"""Sessions and messages by their words. What a fork inherited is found where it stands: in its ancestor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection
from django.db.models import F, Max, Q, QuerySet
from django.db.models.expressions import RawSQL

from sidechat_web.core import words
from sidechat_web.core.words import Piece

from . import reading
from .models import Passage, Segment, Session

MOST_HITS: Final = 100
_INDEX: Final = {
    "sqlite": "SELECT rowid FROM storage_passage_words WHERE storage_passage_words MATCH %s",
    "postgresql": """SELECT id FROM storage_passage
        WHERE array_to_tsvector(string_to_array(words, ' ')) @@ %s::tsquery""",
}
_BEGINNING: Final = {"sqlite": ('"{}"*', " AND "), "postgresql": ("'{}':*", " & ")}


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that has every word, and the text around the first of them."""

    seq: int
    snippet: list[Piece]


def matching(sessions: QuerySet[Session], query: str) -> QuerySet[Session]:
    """Those of `sessions` whose title has every word of `query`, or one of whose messages has.

    `sessions` are all that the caller may see: what they inherited from others is found in them.
    """
    titled = Q()
    for word in query.split():
        titled &= Q(title__icontains=word)
    if not (beginnings := words.asked(query)):
        return sessions.filter(titled)
    found = _saying(beginnings)
    here = _once(found, sessions).values("session")
    return sessions.filter(titled | Q(pk__in=here) | Q(pk__in=dict(_heirs(found, sessions))))


def newest_hits(sessions: QuerySet[Session], shown: Sequence[Session], query: str) -> dict[str, Hit]:
    """The newest message of each of `shown` that has every word of `query`; `sessions` as for `matching`."""
    beginnings = words.asked(query)
    if not beginnings or not shown:
        return {}
    by_id = {session.pk: session for session in shown}
    found = _saying(beginnings)
    newest = _once(found, sessions).filter(session__in=by_id).values_list("session").annotate(Max("seq"))
    seqs = dict(_heirs(found, sessions)) | dict(newest)
    return {pk: _hit(by_id[pk], seq, query) for pk, seq in seqs.items() if pk in by_id}


def within(session: Session, query: str) -> list[Hit]:
    """The messages of one session that have every word of `query`, inherited ones too, newest first."""
    beginnings = words.asked(query)
    if not beginnings:
        return []
    places = Q(pk=None)
    for span in reading.spans(session):
        places |= Q(session=span.origin, seq__gte=span.start, seq__lt=span.stop)
    found = _saying(beginnings).filter(places).order_by("-seq").values_list("seq", flat=True).distinct()
    return [_hit(session, seq, query) for seq in found[:MOST_HITS]]


def _saying(beginnings: Sequence[str]) -> QuerySet[Passage]:
    one, joint = _BEGINNING[connection.vendor]
    asked = joint.join(one.format(word) for word in beginnings)
    return Passage.objects.filter(pk__in=RawSQL(_INDEX[connection.vendor], [asked]))


def _once(found: QuerySet[Passage], sessions: QuerySet[Session]) -> QuerySet[Passage]:
    """What stands in rows of `sessions`, without the copies that imported forks have of a parent that is here, too."""
    own = Q(session__seed_length=None) | Q(seq__gte=F("session__seed_length")) | Q(session__parent=None)
    return found.filter(own | ~Q(session__parent__in=sessions), session__in=sessions)


def _heirs(found: QuerySet[Passage], sessions: QuerySet[Session]) -> Iterator[tuple[str, int]]:
    """`(session, seq)` of the oldest fork that has what stands in rows of a session that is not among `sessions`."""
    inherited = Segment.objects.filter(session__in=sessions).exclude(origin__in=sessions)
    parts = list(inherited.order_by("session_id").values_list("session_id", "origin_id", "start", "stop"))
    if not parts:
        return
    hits = list(found.filter(session__in={origin for _, origin, *_ in parts}).values_list("session_id", "seq"))
    told: set[tuple[str, int]] = set()
    for heir, origin, start, stop in parts:
        own = {(place, seq) for place, seq in hits if place == origin and start <= seq < stop} - told
        told |= own
        if own:
            yield heir, max(seq for _, seq in own)


def _hit(session: Session, seq: int, query: str) -> Hit:
    event = reading.event(session, seq)
    return Hit(seq, words.snippet(words.said(event) if event else "", query))


def texts(pieces: Iterable[Piece]) -> str:
    """A snippet as plain text."""
    return "".join(piece.text for piece in pieces)
