"""What holds for every valid log."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.core import boundary, codec, jsontext, repair, rules
from sidechat_web.core import events as ev
from sidechat_web.core.events import ASSISTANT_CHUNK, Replace
from sidechat_web.core.head import Head, advance, advance_chunks
from sidechat_web.core.surface import Surface, derived

from .generated import crashed, logs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def head_of(events):
    head = Head()
    for event in events:
        head = advance(head, event)
    return head


@given(JSON)
def test_json_text_is_lossless_and_encodable(value):
    assert jsontext.loads(jsontext.dump_bytes(value)) == value


@given(JSON, JSON)
def test_canonical_text_tells_values_apart(one, other):
    assert (jsontext.canonical(one) == jsontext.canonical(other)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


@given(logs())
def test_a_line_gives_its_event_again(events):
    for event in events:
        assert codec.decode(codec.encode(event)) == [event]
        assert rules.envelope(codec.envelope(event)) is None and rules.payload(event.type, event.data) is None


@given(logs())
def test_packed_lines_give_the_events_again(events):
    lines = list(codec.pack(events))
    assert [event for line in lines for event in codec.decode(line)] == events
    for record in map(jsontext.loads, lines):
        if record["type"] in codec.PACKED:
            assert rules.packed_row(record) is None and rules.members(record) >= 3
    assert list(codec.pack(events)) == lines


@given(logs(), st.data())
def test_packing_does_not_depend_on_batches_after_reading(events, data):
    cut = data.draw(st.integers(0, len(events)))
    lines = [*codec.pack(events[:cut]), *codec.pack(events[cut:])]
    assert [event for line in lines for event in codec.decode(line)] == events


@given(logs())
def test_derivation_is_a_pure_fold_that_appends_extend(events):
    surface, before = Surface(), []
    for event in events:
        surface.apply(event)
        now = surface.messages()
        if not isinstance(event.surface_op, Replace):
            assert now[: len(before)] == before
        before = now
    assert Surface.of(events).messages() == before
    assert [m for m in map(derived, map(surface.event, surface.nodes)) if m is not None] == before


@given(logs())
def test_chunks_change_nothing_that_a_model_sees(events):
    without = Surface.of(event for event in events if event.type != ASSISTANT_CHUNK)
    assert without.messages() == Surface.of(events).messages()


@given(logs(), st.data())
def test_a_fork_at_any_boundary_sees_what_the_parent_saw_there(events, data):
    head = head_of(events)
    seq = data.draw(st.integers(0, len(events)))
    marks = [e for e in events if e.type in (ev.TURN_START, ev.TURN_END)]
    last = next((m for m in reversed(marks) if m.seq <= seq), None)
    cut = boundary.at_message(head, seq, boundary.following_turn(last, [m for m in marks if m.seq > seq]))
    assert head_of(events[:cut]).open_turn is None and not repair.closers(events[:cut])
    assert cut > seq or cut == len(events)
    note = ev.context_message("f", "You advise.", {"kind": "plugin", "plugin": "sidechat"}).at(
        cut, events[-1].time if events else 0
    )
    parent_there, child = Surface.of(events[:cut]), Surface.of([*events[:cut], note])
    assert child.messages()[:-1] == parent_there.messages() and child.header == parent_there.header


@given(crashed())
def test_the_stable_prefix_is_closed_and_as_long_as_can_be(events):
    head = head_of(events)
    assert boundary.default(head) == head.stable
    assert not repair.closers(events[: head.stable])
    assert head.stable == len(events) or events[head.stable].type == ev.TURN_START


@given(crashed(), st.booleans())
def test_repair_closes_the_turn_once(events, own):
    closers = repair.closers(events, keep_partial_text=own)
    repaired = events + [draft.at(len(events) + n, events[-1].time) for n, draft in enumerate(closers)]
    assert repair.closers(repaired, keep_partial_text=own) == []
    assert repaired[: len(events)] == events and head_of(repaired).open_turn is None
    surface = Surface.of(repaired)
    calls = {b["id"] for m in surface.messages() for b in m["content"] if b["type"] == "tool-call"}
    answered = {b["toolCallId"] for m in surface.messages() for b in m["content"] if b["type"] == "tool-result"}
    assert calls <= answered or any(isinstance(e.surface_op, Replace) for e in events)


@given(logs(min_turns=1))
def test_a_merge_leaves_the_parents_prefix_untouched(events):
    source = {"kind": "plugin", "plugin": "sidechat", "form": "handback", "session": "side", "throughSeq": 3}
    note = ev.context_message("note", "Condensed.", source).at(len(events), events[-1].time)
    before, after = Surface.of(events), Surface.of([*events, note])
    assert after.messages() == [*before.messages(), note.data]
    assert list(codec.pack([*events, note]))[:-1] == list(codec.pack(events))
    assert head_of([*events, note]).stable == len(events) + 1


@given(logs())
def test_heads_take_chunk_runs_at_once(events):
    head = Head()
    for chunk, group in itertools.groupby(events, lambda e: e.type == ASSISTANT_CHUNK):
        members = list(group)
        if chunk:
            head = advance_chunks(head, members[-1].seq, max(e.time for e in members))
        else:
            for event in members:
                head = advance(head, event)
    assert head == head_of(events)
