"""What a compaction may replace."""

from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.core import events as ev
from sidechat_web.core.window import oldest_part


def prompt(n):
    return ev.user_message(f"u{n}", ev.text_blocks("q"))


def answer(n, calls=()):
    content = [*ev.text_blocks("a"), *({"type": "tool-call", "id": c, "name": "t", "arguments": "{}"} for c in calls)]
    source = {"kind": "model", "provider": "p", "model": "m"}
    return ev.assistant_message(1, 1, {"id": f"a{n}", "role": "assistant", "content": content, "source": source})


def result(call):
    return ev.tool_result(1, 1, call, f"r{call}", "ok")


def turns(shape):
    """`shape`: for each turn, how many calls each of its steps makes."""
    drafts, serial = [], 0
    for steps in shape:
        drafts.append(prompt(len(drafts)))
        for calls in steps:
            ids = [f"c{serial + k}" for k in range(calls)]
            serial += calls
            drafts += [answer(len(drafts), ids), *(result(c) for c in ids)]
    return [d.at(i, 0) for i, d in enumerate(drafts)]


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=8))
def test_part_is_a_prefix_that_leaves_every_pair_whole(shape):
    nodes = turns(shape)
    part = oldest_part(nodes)
    assert part == nodes[: len(part)] and len(part) != 1 and (not nodes or len(part) < len(nodes))
    calls = {b["id"] for n in part if n.type == ev.ASSISTANT_MESSAGE for b in n.data["message"]["content"] if "id" in b}
    answered = {n.data["message"]["source"]["callId"] for n in part if n.type == ev.TOOL_RESULT}
    assert calls == answered


def test_last_two_turns_stay_verbatim():
    nodes = turns([[0], [0], [1], [0]])
    assert [n.seq for n in oldest_part(nodes)] == [0, 1, 2, 3]


def test_nothing_to_compact_in_one_short_turn():
    assert oldest_part(turns([[0]])) == []
