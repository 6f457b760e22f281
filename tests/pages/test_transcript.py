"""What people read of a log: one rendering for the page and for the stream."""

import os
import re
from pathlib import Path

import pytest

from sidechat_web.core import events as ev
from sidechat_web.core.events import Draft, Replace
from sidechat_web.render.items import Link
from sidechat_web.render.transcript import SessionInfo, Transcript, cited, render_items

from .conftest import answering, asked, call, called, ended, said

SNAPSHOTS = Path(__file__).parent / "snapshots"
SESSION = "s" * 26
SIDE = {"kind": "plugin", "plugin": "sidechat"}
NOTE = (
    "[Advice from the side session “zstd” (x); not an instruction]\n\n**Frame 1** holds the header.\n\n- Caveat: none"
)


def handback(**more):
    source = {**SIDE, "form": "handback", "session": "side-log", "throughSeq": 40, "truncated": False, "edited": False}
    return ev.context_message("h1", NOTE, {**source, **more})


def context(form, text="Some text.", **more):
    return ev.context_message("c1", text, {**SIDE, "form": form, **more})


def replacing(draft, *seqs):
    return Draft(draft.type, draft.data, Replace(seqs[0], seqs[-1]), tuple(seqs))


def at(*drafts, first=0):
    """The drafts as events, one second apart."""
    return [draft.at(first + n, 1_800_000_000_000 + n * 1000) for n, draft in enumerate(drafts)]


def fold(events, **info):
    return Transcript(SessionInfo(id=SESSION, **info)).apply_all(events)


def summary(seqs):
    data = {"compactionId": "k1", "summary": ev.text_blocks("They *ported* the reader."), "shadowedSeqs": seqs}
    replaced = ev.user_message("k", ev.text_blocks("Summary"), {"kind": "plugin", "plugin": "compact"})
    return [
        Draft(ev.COMPACTION_START, {"compactionId": "k1", "turn": None}),
        Draft(ev.COMPACTION_SUMMARY, data),
        replacing(replaced, *seqs),
        Draft(ev.COMPACTION_END, {"compactionId": "k1", "turn": None}),
    ]


CODE = "Here:\n\n```python\nx = 1\n```\n\n| a | b |\n|---|--:|\n| 1 | $x^2$ |"
TITLES = {"side-log": Link("zstd frames", f"/s/{SESSION}/?side=side")}
THINKING = {"type": "reasoning", "text": "Hm, why."}
ASKED = {"id": "a" * 26, "toolName": "write_file", "callId": "c1", "reason": "It may change something."}
FAILURE = {"kind": "error", "error": {"message": "401: no <key>", "code": "AUTH"}}
RETRY = {"turn": 1, "step": 1, "retry": 1, "maxRetries": 5, "delayMs": 1500, "failure": {"message": "429"}}
TWO = [{"session": "side-log", "throughSeq": 4}, {"session": "gone", "throughSeq": 9}]


def looking():
    """A turn with two tool calls, one of which fails."""
    return [
        *asked(1, "Look"),
        answering(1, 1, "I look.", call("c1", "read_file", path="a.py"), call("c2", "edit_file", path="b.py")),
        called(1, "c1", "read_file", path="a.py"),
        ev.tool_result(1, 1, "c1", "r1", "1 <b>\n2", call_seq=4),
        called(1, "c2", "edit_file", path="b.py"),
        ev.tool_result(1, 1, "c2", "r2", "no", call_seq=6, is_error=True, meta={"diff": "+n\n-o", "durationMs": 8}),
        *ended(1),
    ]


def handed_back():
    return [ev.turn_start(2), context("handback-request"), answering(2, 1, "A note."), *ended(2)]


def by_user():
    return ended(1, {"kind": "aborted", "reason": {"kind": "user"}})


DONE = said(1, "Go", "Done.")
NAMED = {"titles": TITLES}
LOGS = {
    "main": (said(1, "Show `code`", CODE), {}),
    "reasoning": ([*asked(1, "Why?"), answering(1, 1, THINKING, "So."), *ended(1)], {}),
    "tools": (looking(), {}),
    "approval": (
        [*asked(1, "Go"), answering(1, 1, call("c1", "write_file", path="a")), Draft(ev.APPROVAL_ASKED, ASKED)],
        {},
    ),
    "running": (asked(1, "Go on"), {}),
    "stopped": ([*asked(1, "Go"), answering(1, 1, "Half an", interrupted=True), *by_user()], {}),
    "interrupted": ([*asked(1, "Go"), *ended(1, {"kind": "interrupted"})], {}),
    "continued": ([*asked(1, "Go"), *ended(1, {"kind": "interrupted"}), *said(2, "Continue.", "Yes.")], {}),
    "failed": ([*asked(1, "Go"), *ended(1, FAILURE)], {}),
    "length": (said(1, "Go", "A long", {"kind": "max-tokens"}), {}),
    "retry": ([*asked(1, "Go"), Draft(ev.LLM_RETRY, RETRY), answering(1, 1, "There."), *ended(1)], {}),
    "side": ([context("advisor"), *said(1, "Why?", "Because."), *handed_back()], {}),
    "note": ([*DONE, handback(), *said(2, "Use that", "Used.")], NAMED),
    "note-cut-edited": ([handback(truncated=True, edited=True)], NAMED),
    "note-of-two": ([handback(sessions=TWO)], NAMED),
    "retracted": ([*DONE, handback(), replacing(context("retraction"), 6)], NAMED),
    "imitation": (said(1, NOTE, "That is your text."), {}),
    "compacted": ([*DONE, *summary([2, 3]), *said(2, "More", "Yes.")], {}),
    "promoted": ([context("advisor"), *said(1, "Why?", "Because."), context("promotion")], {}),
    "fork": (DONE, {"seed_length": 6, "parent": Link("The parent", "/s/p/")}),
    "other-plugin": ([context("notice", plugin="file-watch", summary="a.py changed")], {}),
}


@pytest.mark.parametrize("name", LOGS)
def test_snapshot(name):
    drafts, info = LOGS[name]
    html = tidy(render_items(fold(at(*drafts), **info).items))
    file = SNAPSHOTS / f"{name}.html"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(html)
    assert html == file.read_text()


@pytest.mark.parametrize("name", LOGS)
def test_changes_applied_live_give_the_page(name):
    """Replacing or appending what each event changed, by id, ends with what a fresh page shows."""
    drafts, info = LOGS[name]
    page, live = {}, Transcript(SessionInfo(id=SESSION, **info))
    for event in at(*drafts):
        page.update({item.key: render_items([item]) for item in live.apply(event)})
    assert "".join(page.values()) == render_items(fold(at(*drafts), **info).items)


@pytest.mark.parametrize("name", LOGS)
def test_every_item_is_one_element_with_its_key(name):
    drafts, info = LOGS[name]
    items = fold(at(*drafts), **info).items
    for item in items:
        html = render_items([item]).strip()
        assert re.match(rf'<li [^>]*id="{item.key}"', html) and html.endswith("</li>")
    keys = [item.key for item in items]
    assert len(keys) == len(set(keys))


def test_user_text_that_imitates_a_note_stays_a_message():
    items = fold(at(*said(1, NOTE, "ok"))).items
    assert items[0].kind == "user"
    assert cited(at(*said(1, NOTE, "ok"))) == set()


def test_context_in_user_messages_of_other_logs_is_read_too():
    old = handback()
    newer = Draft(ev.USER_MESSAGE, {**old.data, "role": "user"}, "append")
    [item] = fold(at(newer), titles=TITLES).items
    assert item.kind == "note" and item.origins == [TITLES["side-log"]]


def test_forks_are_marked_where_they_left():
    events = at(*said(1, "a", "b"), handback(), *said(2, "c", "d"))
    folded = fold(events, sides={position: [Link(f"at {position}", "/")] for position in (6, 7, 13)})
    marked = {
        item.key.removeprefix(f"{SESSION}-"): [s.title for s in item.sides] for item in folded.items if item.sides
    }
    assert marked == {"t1-end": ["at 6"], "e6": ["at 7"], "t2-end": ["at 13"]}


def test_window_that_starts_later_shows_the_rest_alike():
    drafts = [*said(1, "a", "b"), *said(2, "c", "d")]
    whole, part = fold(at(*drafts)), fold(at(*drafts)[6:])
    rendered = [render_items([item]) for item in whole.items]
    assert [render_items([item]) for item in part.items] == rendered[-len(part.items) :]


@pytest.mark.parametrize("cut", range(1, 8))
def test_lone_surrogates_and_controls_do_not_reach_the_page(cut):
    text = ("a\ud83d\u202eb\x1b[31m\x00" * 2)[:cut]
    html = render_items(fold(at(*said(1, text, text))).items)
    html.encode()
    assert not re.search("[\x00-\x08\x1b\u202e]", html)


def tidy(html):
    """One element a line, so that a change of a snapshot can be read."""
    return (
        re.sub(r"\n\s*\n+", "\n", re.sub(r">\s*<(?=li|div|details|section|header|h3|p|pre|a )", ">\n<", html)).strip()
        + "\n"
    )
