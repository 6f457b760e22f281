"""A parent with many sides, deep and with many notes: everything right, for as many queries as with two."""

from dataclasses import dataclass

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sidechat_web.api import listing
from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, requests
from sidechat_web.runtime.sidechat import citations, merge_back, side
from sidechat_web.runtime.views import session_json
from sidechat_web.storage import access, log, reading
from sidechat_web.storage.models import Session

from .side_story import handbacks

pytestmark = pytest.mark.django_db
SIDES, DEPTH, NOTES = 60, 8, 40


def turn(session, asked, answered="Because."):
    """A whole turn of `session`, as its agent would log it."""
    session.refresh_from_db()
    number = session.last_turn + 1
    answer = {
        "id": f"a{number}",
        "role": "assistant",
        "content": ev.text_blocks(answered),
        "source": {"kind": "model", "provider": "custom", "model": "scripted"},
    }
    first = [] if reading.surface(session).header else [ev.request_header(session.settings["header"], "initial")]
    drafts = [
        ev.turn_start(number),
        ev.step_start(number, 1),
        ev.user_message(f"u{number}", ev.text_blocks(asked)),
        *first,
        ev.assistant_message(number, 1, answer, {"inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 30}),
        ev.step_end(number, 1),
        ev.turn_end(number, {"kind": "completed"}),
    ]
    log.append(session.pk, drafts)


@dataclass
class Family:
    parent: Session
    sides: list[Session]
    deepest: Session

    @property
    def notes(self):
        return handbacks(reading.events(self.parent))


def family(owner, sides, depth, notes):
    """A parent with `sides` sides, one of them `depth` levels deep, and `notes` of them merged."""
    parent = commands.create(owner, title="Main")
    made = []
    for n in range(sides):
        if n % 20 == 0:
            turn(parent, f"main {n}")
        made.append(side.open_side(parent, title=f"Side {n}"))
        turn(made[-1], f"side question {n}")
    for n, one in enumerate(made[:notes]):
        merge_back.merge(fresh(one), text=f"Note {n}, as turn {fresh(one).last_turn} says.")
    deepest = made[0]
    for level in range(1, depth):
        deepest = side.open_side(deepest, title=f"Level {level}")
        turn(deepest, f"deep question {level}")
    return Family(fresh(parent), [fresh(one) for one in made], fresh(deepest))


def fresh(session):
    return Session.objects.select_related("parent").get(pk=session.pk)


def queries(work, family):
    with CaptureQueriesContext(connection) as captured:
        work(family)
    return len(captured)


SAME = {
    "merges of a parent": lambda f: merge_back.merges_of(f.parent),
    "merges of a side": lambda f: merge_back.merges_of(f.sides[0]),
    "where a side was merged": lambda f: merge_back.merged_into(f.sides[0]),
    "whether a side can be merged": lambda f: merge_back.why_not(f.sides[-1]),
    "what a side knows": lambda f: side.knows(f.sides[0]),
    "what one would know": lambda f: side.would_know(f.parent),
    "the cached share": lambda f: side.first_cached_share(f.sides[0]),
    "fork marks": lambda f: side.sides_from(f.parent),
    "cited turns": lambda f: citations.citations(f.notes, f.sides),
    "opening one more": lambda f: side.open_side(f.parent, text="one more?"),
    "the parent's next request": lambda f: requests.encode(f.parent, reading.surface(f.parent)),
    "a side's requests": lambda f: requests.list_requests(f.sides[0]),
    "the list": lambda f: [session_json(s) for s in page(f.parent.owner)],
}


def page(owner):
    found, _ = listing.page(access.visible(owner), q="", archived=False, limit=200, cursor=None)
    return found


DEEP = {
    "what the deepest knows": lambda f: side.knows(f.deepest),
    "what its model sees": lambda f: reading.surface(f.deepest),
    "its request": lambda f: requests.body(f.deepest, 1),
    "one deeper": lambda f: side.open_side(f.deepest, text="deeper?"),
    "the list": lambda f: page(f.parent.owner),
}


def test_many_cost_as_many_queries_as_two_and_depth_a_few_a_level(owner, provider):
    few, many = family(owner, 2, 2, 2), family(owner, SIDES, DEPTH, NOTES)
    costs = {name: (queries(work, few), queries(work, many)) for name, work in SAME.items()}
    assert {name: cost for name, cost in costs.items() if cost[0] != cost[1]} == {}
    deep = {name: (queries(work, few), queries(work, many)) for name, work in DEEP.items()}
    assert {name: cost for name, cost in deep.items() if cost[1] > cost[0] + 4 * (DEPTH - 2)} == {}


def test_many_and_deep_are_right(owner, provider):
    many = family(owner, SIDES, DEPTH, NOTES)
    check_the_sides_and_notes(many)
    check_the_deepest(many.deepest)


def check_the_sides_and_notes(many):
    assert len(many.notes) == len(merge_back.merges_of(many.parent)) == NOTES
    assert {m["state"] for m in merge_back.merges_of(many.parent)} == {"delivered"}
    assert [m["seq"] for m in merge_back.merges_of(many.parent)] == [note.seq for note in many.notes]
    for n, one in enumerate(many.sides):
        merged = merge_back.merged_into(one)
        assert [m["seq"] for m in merged] == ([many.notes[n].seq] if n < NOTES else [])
        assert side.knows(one)["turn"] == n // 20 + 1
        assert side.knows(one)["behind"] == SIDES // 20 - n // 20 - 1
        assert side.first_cached_share(one) == 0.75
    marks = side.sides_from(many.parent)
    assert [len(sides) for _, sides in sorted(marks.items())] == [20, 20, 20]
    cited = citations.citations(many.notes, many.sides)
    assert len(cited) == NOTES and all(len(found) == 1 for found in cited.values())
    said = [ev.text_of(m) for m in reading.surface(many.parent).messages()]
    assert len([text for text in said if text.startswith("[Advice from")]) == NOTES


def check_the_deepest(deepest):
    """It sees the root, every level and itself."""
    said = [ev.text_of(m) for m in reading.surface(deepest).messages()]
    framing = [text for text in said if text.startswith("[Side session")]
    asked = [text for text in said if text not in framing and text != "Because."]
    assert asked == ["main 0", "side question 0", *(f"deep question {level}" for level in range(1, DEPTH))]
    assert len(framing) == DEPTH
    assert deepest.seed_length == deepest.base
    above, session = 0, deepest
    while session.parent is not None:
        above, session = above + 1, session.parent
    assert above == DEPTH
