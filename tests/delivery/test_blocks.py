"""Streaming blocks as a fold over deltas: no loss, repetition or change of order corrupts them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.core.events import ASSISTANT_CHUNK, ASSISTANT_MESSAGE, Event
from sidechat_web.delivery.blocks import LiveBlocks, streamed
from sidechat_web.runtime.live import Delta

KEY = (1, 1, 0)


def delta(offset: int, text: str, step: int = 1, index: int = 0) -> Delta:
    return Delta(1, step, index, "text", offset, text)


def pieces_of(text: str, cuts: list[int]) -> list[Delta]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [delta(a, text[a:b]) for a, b in pairwise(edges)]


@given(st.text(max_size=60), st.lists(st.integers(0, 60)), st.lists(st.integers(0, 60)), st.randoms())
def test_any_order_of_any_cuts_adds_up(text, cuts, other_cuts, rnd):
    deltas = pieces_of(text, cuts) + pieces_of(text, other_cuts)
    rnd.shuffle(deltas)
    blocks, shown = LiveBlocks(), ""
    for piece in deltas:
        for added in blocks.apply(piece):
            assert added.offset == len(shown)
            shown += added.text
            assert text.startswith(shown)
    assert shown == text
    assert not blocks.gap


def test_a_gap_waits_for_the_log():
    blocks = LiveBlocks()
    blocks.apply(delta(0, "one "))
    assert blocks.apply(delta(8, "three")) == []
    assert blocks.gap
    assert blocks.apply(delta(0, "one two ")) == [delta(4, "two "), delta(8, "three")]
    assert not blocks.gap


def test_a_settled_step_gives_what_was_missed_and_takes_no_more():
    blocks = LiveBlocks()
    blocks.apply(delta(0, "one "))
    assert blocks.settle(1, 1, {0: "one two"}) == [delta(4, "two")]
    assert blocks.apply(delta(7, " late")) == []
    assert list(blocks) == []
    assert blocks.apply(delta(0, "next step", step=2))


def test_a_void_turn_is_forgotten():
    blocks = LiveBlocks()
    blocks.apply(delta(0, "one", step=3))
    blocks.forget(1)
    assert list(blocks) == []
    assert blocks.apply(delta(3, "late", step=9)) == []


def test_open_blocks_of_a_log():
    def chunk(index: int, kind: str, **fields: str) -> Event:
        data = {"turn": 1, "step": 1, "chunk": {"type": kind, "index": index, **fields}}
        return Event(0, 0, ASSISTANT_CHUNK, data)

    events = [
        chunk(0, "block-start", blockType="reasoning"),
        chunk(0, "reasoning-delta", text="Hm"),
        chunk(0, "reasoning-delta", text="."),
        chunk(1, "text-delta", text="So"),
        chunk(2, "tool-call-delta", id="c", argumentsDelta='{"a":'),
    ]
    assert streamed(events) == [
        Delta(1, 1, 0, "reasoning", 0, "Hm."),
        Delta(1, 1, 1, "text", 0, "So"),
        Delta(1, 1, 2, "tool-args", 0, '{"a":'),
    ]
    halves = [chunk(3, "text-delta", text=half) for half in ("\ud83d", "\ude00", "\ud83d")]
    assert streamed([*events, *halves])[3] == Delta(1, 1, 3, "text", 0, "\U0001f600")
    assert streamed([*events, Event(1, 0, ASSISTANT_MESSAGE, {})]) == []
