"""The record's rules one by one, where a property would not show what is meant."""

import pytest

from sidechat_web.core import boundary, jsontext, repair, rules
from sidechat_web.core import events as ev
from sidechat_web.core.assembly import Assembly
from sidechat_web.core.errors import RecordError, TurnOpen
from sidechat_web.core.events import Draft, Replace
from sidechat_web.core.head import Head, advance
from sidechat_web.core.surface import Nodes, Surface, canonical_header

MODEL = {"kind": "model", "provider": "acme", "model": "small"}
HEADER = ev.request_header({"config": {"provider": "acme", "model": "small"}}, "initial")


def at(*drafts, time=7):
    return [draft.at(seq, time) for seq, draft in enumerate(drafts)]


def head_of(events):
    head = Head()
    for event in events:
        head = advance(head, event)
    return head


def asked(*call_ids, step=1):
    blocks = [{"type": "tool-call", "id": c, "name": "n", "arguments": "{}"} for c in call_ids]
    return ev.assistant_message(1, step, {"id": "a", "role": "assistant", "content": blocks, "source": MODEL})


def called(call_id):
    return Draft(ev.TOOL_CALL, {"turn": 1, "step": 1, "callId": call_id})


def delta(index, text, kind="text"):
    return ev.chunk(1, 1, {"type": f"{kind}-delta", "index": index, "text": text})


NOTE = ev.context_message("n", "note", {"kind": "plugin", "plugin": "p"})
TURN = (ev.turn_start(1), ev.user_message("u", ev.text_blocks("hi")), ev.turn_end(1, {"kind": "completed"}))
AGAIN = (ev.turn_start(2), ev.user_message("v", ev.text_blocks("ho")), ev.turn_end(2, {"kind": "completed"}))


def boundary_at(events, seq):
    marks = [e for e in events if e.type in (ev.TURN_START, ev.TURN_END)]
    last = next((m for m in reversed(marks) if m.seq <= seq), None)
    return boundary.at_message(head_of(events), seq, boundary.following_turn(last, [m for m in marks if m.seq > seq]))


def test_what_stands_between_turns_belongs_to_the_earlier_one():
    events = at(*TURN, NOTE, *AGAIN)
    assert [boundary_at(events, seq) for seq in range(8)] == [4, 4, 4, 4, 7, 7, 7, 7]


def test_what_stands_before_the_first_turn_belongs_to_it():
    assert boundary_at(at(NOTE, *TURN, *AGAIN), 0) == 4


def test_a_log_without_turns_is_stable_as_a_whole():
    assert boundary_at(at(NOTE, NOTE), 0) == 2 and boundary.default(Head()) == 0


def test_the_open_turn_has_no_boundary_yet():
    events = at(*TURN, NOTE, *AGAIN[:2])
    assert boundary.default(head_of(events)) == 4 and boundary_at(events, 3) == 4
    for seq in (4, 5, 9):
        with pytest.raises(TurnOpen) as refused:
            boundary_at(events, seq)
        assert refused.value.code == "turn_open"


def test_there_is_no_event_before_the_first():
    with pytest.raises(RecordError) as refused:
        boundary_at(at(*TURN), -1)
    assert refused.value.code == "bad_seq"


def test_a_turn_that_starts_inside_another_leaves_the_stable_prefix():
    events = at(*TURN, ev.turn_start(2), ev.turn_start(3))
    assert (head_of(events).stable, head_of(events).open_turn) == (3, 3)
    events = at(*TURN, ev.turn_start(2), ev.turn_start(3), ev.turn_end(3, {"kind": "completed"}), *TURN)
    assert boundary_at(events, 3) == 6


@pytest.mark.parametrize("data", [None, [], "x", {"turn": True}, {"turn": 2.5}, {"turn": 10**30}, {}])
def test_heads_take_turn_marks_of_any_shape(data):
    head = head_of(at(*TURN, Draft(ev.TURN_START, data)))
    assert (head.open_turn, head.last_turn) == (2, 2)
    assert head_of(at(Draft(ev.TURN_END, data))).last_reason is None


def test_closers_answer_calls_in_order_then_end_step_and_turn():
    log = at(ev.turn_start(1), ev.step_start(1, 1), asked("c1", "c2", "c1"), called("c2"), called("c9"))
    closers = repair.closers(log)
    assert [d.type for d in closers] == ["tool/result", "tool/result", "step/end", "turn/end"]
    not_started, unknown = closers[:2]
    assert not_started.data["error"]["code"] == "TOOL_NOT_STARTED" and not_started.source_event_seqs is None
    assert unknown.data["error"]["code"] == "TOOL_OUTCOME_UNKNOWN" and unknown.source_event_seqs == (3,)
    assert [d.data["message"]["id"] for d in closers[:2]] == [
        "interrupted-tool-result-c1-5",
        "interrupted-tool-result-c2-6",
    ]
    assert closers[-1].data == {"turn": 1, "reason": {"kind": "interrupted"}}


def test_closers_keep_streamed_text_in_our_own_logs_only():
    log = at(
        ev.turn_start(1),
        ev.step_start(1, 1),
        HEADER,
        delta(0, "thinking", "reasoning"),
        delta(1, "Two "),
        delta(2, " "),
    )
    assert [d.type for d in repair.closers(log)] == ["step/end", "turn/end"]
    kept = repair.closers(log, keep_partial_text=True)[0]
    assert kept.data["message"]["content"] == [
        {"type": "reasoning", "text": "thinking"},
        {"type": "text", "text": "Two "},
    ]
    assert kept.data["interrupted"] is True


def test_closers_keep_nothing_that_a_retry_or_an_answer_replaced():
    start = (ev.turn_start(1), ev.step_start(1, 1), HEADER, delta(0, "lost"))
    retried = at(*start, Draft(ev.LLM_RETRY, {"turn": 1}), delta(0, " \n"))
    assert [d.type for d in repair.closers(retried, keep_partial_text=True)] == ["step/end", "turn/end"]
    answered = at(*start, asked("c1"))
    assert repair.closers(answered, keep_partial_text=True)[0].type == "tool/result"


def test_calls_of_a_closed_step_stay_unanswered():
    log = at(ev.turn_start(1), ev.step_start(1, 1), asked("c1"), ev.step_end(1, 1))
    assert [d.type for d in repair.closers(log)] == ["turn/end"]


def test_assembly_takes_block_end_as_authoritative():
    chunks = [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "dr"},
        {"type": "tool-call-delta", "index": 1, "id": "c", "name": "look", "argumentsDelta": '{"a'},
        {"type": "tool-call-delta", "index": 1, "id": "c", "argumentsDelta": '":1}'},
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": "draft"}},
        {"type": "text-delta", "index": 0, "text": "late"},
    ]
    assembly = Assembly.of(chunks)
    assert assembly.blocks() == [
        {"type": "text", "text": "draft"},
        {"type": "tool-call", "id": "c", "name": "look", "arguments": '{"a":1}'},
    ]
    assembly.add({"type": "finish", "reason": {"kind": "max-tokens"}})
    assert [b["type"] for b in assembly.blocks()] == ["text"]


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"type": 3},
        {"type": "text-delta"},
        {"type": "block-end", "index": 0},
        {"type": "text-delta", "index": 0, "text": 5},
    ],
)
def test_assembly_survives_what_is_no_chunk(chunk):
    assert all(not block.get("text") for block in Assembly.of([chunk]).blocks())


def test_a_replacement_stands_where_it_cut():
    one, two, three = (ev.user_message(i, ev.text_blocks(i)) for i in "abc")
    summary = Draft(ev.USER_MESSAGE, {**one.data, "id": "s"}, Replace(0, 1), (1, 0))
    again = Draft(ev.USER_MESSAGE, {**one.data, "id": "t"}, Replace(3, 2), (3, 2))
    surface = Surface.of(at(one, two, three, summary))
    assert surface.nodes == [3, 2]
    surface.apply(again.at(4, 7))
    assert surface.nodes == [4] and [m["id"] for m in surface.messages()] == ["t"]


def test_many_rewrites_keep_their_places():
    nodes = Nodes()
    results = [ev.tool_result(1, 1, f"c{n}", f"r{n}", "long") for n in range(50)]
    for seq, draft in enumerate(results):
        nodes.apply(draft.at(seq, 0))
    for n in reversed(range(50)):
        rewritten = ev.tool_result(1, 1, f"c{n}", f"r{n}", "short")
        nodes.apply(Draft(rewritten.type, rewritten.data, Replace(n, n), (n,)).at(99 - n, 0))
    assert nodes.seqs == [99 - n for n in range(50)]


def test_true_and_one_differ_in_what_a_rewrite_keeps():
    first = ev.tool_result(1, 1, "c", "r", "x", meta={"n": 1})
    other = ev.tool_result(1, 1, "c", "r", "y", meta={"n": True})
    with pytest.raises(RecordError, match="rewrite"):
        Surface.of(at(first, Draft(other.type, other.data, Replace(0, 0), (0,))))


def test_canonical_headers_drop_empty_parts_and_unknown_ones():
    config = {"provider": "p", "model": "m"}
    header = {"tools": [], "system": "", "adapterDefaults": {}, "config": config, "messagePrefix": []}
    assert canonical_header(header) == {"config": config}


@pytest.mark.parametrize(
    "text, value", [("1.0", 1), ("-0", 0), ("1e3", 1000), ("0.5", 0.5), ("1e999", None), ("[[1]]", [[1]])]
)
def test_numbers_are_read_as_a_javascript_writer_means_them(text, value):
    assert jsontext.loads(text) == value and type(jsontext.loads(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "[" * 300 + "]" * 300, "[" * 100_000, '{"a":' * 400 + "1" + "}" * 400, "", "\ufeff1"]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError):
        jsontext.loads(text)


def test_brackets_in_strings_are_not_nesting():
    assert jsontext.loads('"' + "[" * 1000 + '\\""') == "[" * 1000 + '"'


def test_the_format_knows_48_types():
    assert len(rules.KNOWN_TYPES) == 48
