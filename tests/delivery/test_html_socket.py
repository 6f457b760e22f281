"""The browser's frames: the page's own entries, and streaming blocks that end as those entries show them."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.delivery import rendering
from sidechat_web.pages import history
from sidechat_web.render.transcript import render_items
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import frame
from sidechat_web.runtime.sidechat import side as side_sessions
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .conftest import append
from .corpus import ANSWER
from .dom import Node, parsed


class Page:
    """What the frames of one socket make of a page that loaded nothing yet."""

    def __init__(self, client) -> None:
        self.client = client
        self.items: dict[str, str] = {}
        self.blocks: dict[str, list[str]] = {}
        self.settled: list[str] = []
        self.seen: list[Node] = []

    async def until(self, kind: str, **attributes: str) -> Node:
        while True:
            for node in parsed(await self.client.next_html()).elements:
                self.apply(node)
                if node["data-frame"] == kind and all(
                    dict(node.attributes).get(f"data-{k}") == v for k, v in attributes.items()
                ):
                    return node

    def apply(self, node: Node) -> None:
        self.seen.append(node)
        if node["data-frame"] == "items":
            [template] = node.elements
            self.items |= {item["id"]: repr(item) for item in template.elements}
            self.settled += node["data-settles"].split()
        elif node["data-frame"] == "block":
            keep, template = int(node["data-keep"]), node.elements[-1]
            kept = self.blocks.get(node["data-block"], [])[:keep]
            assert len(kept) == keep
            self.blocks[node["data-block"]] = [*kept, *map(repr, template.elements)]


@sync_to_async
def head(session: Session) -> int:
    return Session.objects.get(pk=session.pk).next_seq - 1


@sync_to_async
def page_items(session: Session) -> dict[str, str]:
    """Every entry as a fresh page shows it."""
    session.refresh_from_db()
    events = list(reading.events(session))
    shown = history.transcript(session, history.Window(events, 0, False))
    return {item.key: repr(parsed(render_items([item])).elements[0]) for item in shown.items}


async def open_page(connect, session, **query) -> Page:
    page = Page(await connect(session, **{"as": "html", **query}))
    await page.until("merges")
    return page


async def test_live_entries_are_the_pages(connect, producer, session):
    page = await open_page(connect, session)
    for text in (ANSWER, "short", "**bold**"):
        await producer.start(f"what about {text[:20]}")
        for start in range(0, len(text), 7):
            producer.stream(text[start : start + 7])
        await producer.end()
        await page.until("status", status="idle")
    assert page.items == await page_items(session)
    assert page.settled == ["1.1", "1", "2.1", "2", "3.1", "3"]


async def test_replayed_entries_are_the_pages(connect, producer, session):
    for n in range(3):
        await producer.whole_turn(f"answer *{n}*")
    page = await open_page(connect, session, after=-1)
    whole = await page_items(session)
    assert page.items == whole
    assert len([node for node in page.seen if node["data-frame"] == "items"]) == 1
    later = await open_page(connect, session, after=12)
    assert later.items == {
        key: html for key, html in whole.items() if "t2" in key or "-t3" in key or key in later.items
    }
    assert len(later.items) < len(whole)


async def test_block_as_it_streams_and_for_who_comes_late(connect, producer, session):
    page = await open_page(connect, session)
    await producer.start()
    for start in range(0, len(ANSWER), 50):
        producer.stream(ANSWER[start : start + 50])
        await asyncio.sleep(0.04)
    while (done := int((await page.until("block"))["data-done"])) < 12:
        pass
    late = await open_page(connect, session)
    assert late.blocks["1.1.0"][:done] == page.blocks["1.1.0"][:done]
    shell = next(n for n in late.seen if n["data-frame"] == "block").elements[0]
    assert "data-shell" in dict(shell.attributes)
    assert shell.elements[0]["data-block"] == "1.1.0"
    await producer.end()
    await late.until("items", settles="1.1")


async def test_status_says_what_the_json_frames_say(connect, producer, session):
    page = await open_page(connect, session)
    assert page.seen[0]["data-frame"] == "hello"
    await producer.start()
    assert (await page.until("status", status="running"))["data-turn"] == "1"
    await producer.end("interrupted")
    assert (await page.until("status", status="idle"))["data-ended"] == "interrupted"


async def test_queue_changes_are_told(connect, session):
    page = await open_page(connect, session)
    await sync_to_async(commands.say)(session, "wait")
    await page.until("queue")


async def test_long_absence_is_a_gap(connect, producer, session, monkeypatch):
    monkeypatch.setattr(rendering, "MOST_REPLAYED", 3)
    await producer.whole_turn("answer")
    page = await open_page(connect, session)
    assert [n["data-frame"] for n in page.seen][:2] == ["hello", "gap"]
    await producer.whole_turn("live again")
    await page.until("items", settles="2.1")


async def test_retracted_note_from_before_the_window_changes(connect, producer, session):
    source = {"session": "x", "throughSeq": 1, "truncated": False, "edited": False}
    text = frame.message(frame.HANDBACK, "Note from x\n\nThe note.", **source)
    [note] = await append(session.pk, [text])
    await producer.whole_turn("answer")
    page = await open_page(connect, session, after=await head(session))
    taken = frame.message(frame.RETRACTION, frame.RETRACTION_TEXT, session="x")
    await append(session.pk, [ev.Draft(taken.type, taken.data, ev.Replace(note.seq, note.seq), (note.seq,))])
    await page.until("items")
    assert "retracted" in page.items[f"{session.pk}-e{note.seq}"]
    assert page.items == {key: html for key, html in (await page_items(session)).items() if key in page.items}
    assert len(page.items) == 2


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '<img src=x onerror="alert(1)">', "</template><script>"]
)
async def test_hostile_text_stays_text(connect, producer, session, hostile):
    page = await open_page(connect, session)
    await producer.start(hostile)
    for char in hostile * 3:
        producer.stream(char)
    await producer.end()
    await page.until("status", status="idle")
    assert not any(node.find("script") or node.find("img") for node in page.seen)
    assert hostile in parsed(page.items[f"{session.pk}-e3"]).text


async def test_a_side_is_marked_where_it_left(connect, producer, session):
    await producer.whole_turn("answer")
    await producer.whole_turn("another")
    page = await open_page(connect, session)
    first_turn = f"{session.pk}-t1-end"
    side = await sync_to_async(side_sessions.open_side)(session, at_seq=2, title="A side")
    await page.until("items", known="1")
    assert "A side" in page.items[first_turn]
    await sync_to_async(commands.rename)(side, "Renamed")
    await page.until("items", known="1")
    assert page.items == await page_items(session)
    await sync_to_async(commands.delete)(side)
    await page.until("items", known="1")
    assert "Renamed" not in page.items[first_turn]
    assert page.items == await page_items(session)


async def test_a_new_title_is_told(connect, session):
    page = await open_page(connect, session)
    await sync_to_async(commands.rename)(session, "Another title")
    await page.until("face")
