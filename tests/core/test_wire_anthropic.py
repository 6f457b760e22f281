"""The Messages body: what each kind of message becomes, that it only grows, and that the server takes it."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidechat_web.core import jsontext, wire_anthropic
from sidechat_web.core.wire_openai import WireError
from tests import corpus
from tests.scripted_wires import Messages, signature

CONFIG = {"provider": "anthropic", "model": "claude-sonnet-5-5"}
HEADER = {"config": CONFIG, "system": "Be brief.", "tools": [{"name": "t", "description": "d", "parameters": {}}]}
MODEL = {"kind": "model", "provider": "anthropic", "model": "claude-sonnet-5-5"}


def message(role, *content, **source):
    return {"id": "i", "role": role, "content": list(content), "source": source or {"kind": "user"}}


def text(value):
    return {"type": "text", "text": value}


def user(value):
    return message("user", text(value))


def answer(*content, **source):
    return message("assistant", *content, **(source or MODEL))


def thought(value, **state):
    return {"type": "reasoning", "text": value, **state}


def signed(value):
    return thought(value, signature=signature(value))


def call(call_id, arguments="{}", name="echo"):
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}


def result(call_id, output="", **state):
    block = {"type": "tool-result", "toolCallId": call_id, **state, "content": [text(output)]}
    return message("user", block, kind="tool", callId=call_id)


def wire(*messages, header=None):
    return wire_anthropic.body(header or {"config": CONFIG}, messages)["messages"]


def sent(*messages, header=HEADER):
    return wire_anthropic.encode(wire_anthropic.body(header, messages)).decode()


def test_keys_stand_in_wire_order_and_messages_last():
    config = {**CONFIG, "reasoningEffort": "high", "temperature": 1, "maxTokens": 9, "stop": ["x"]}
    assert sent(user("hi"), header={**HEADER, "config": config}) == (
        '{"model":"claude-sonnet-5-5","max_tokens":9,"thinking":{"type":"adaptive","display":"summarized"},'
        '"output_config":{"effort":"high"},"stream":true,"cache_control":{"type":"ephemeral"},"temperature":1,'
        '"stop_sequences":["x"],"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],'
        '"tools":[{"name":"t","description":"d","input_schema":{"type":"object"}}],'
        '"messages":[{"role":"user","content":"hi"}]}'
    )


def test_the_last_tool_is_the_breakpoint_where_there_is_no_system_prompt():
    body = wire_anthropic.body({**HEADER, "system": "  "}, [user("hi")])
    assert "system" not in body and body["tools"][-1]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-sonnet-5-5", None, {"max_tokens": 32_000}),
        ("claude-sonnet-5-5", "off", {"max_tokens": 32_000, "thinking": {"type": "disabled"}}),
        ("claude-opus-4-5-20251101", None, {"max_tokens": 16_000}),
        (
            "claude-sonnet-4-5",
            "low",
            {"max_tokens": 20_096, "thinking": {"type": "enabled", "budget_tokens": 4_096}},
        ),
        ("claude-3-5-haiku-latest", "max", {"max_tokens": 8_192}),
        ("claude-3-opus-latest", None, {"max_tokens": 4_096}),
    ],
)
def test_room_and_thinking_by_model(model, effort, expected):
    config = {"provider": "anthropic", "model": model, **({"reasoningEffort": effort} if effort else {})}
    body = wire_anthropic.body({"config": config}, [])
    assert {key: body[key] for key in ("max_tokens", "thinking", "output_config") if key in body} == expected


def test_a_thinking_budget_fits_under_the_limit_that_was_asked_for():
    config = {"provider": "anthropic", "model": "claude-sonnet-4-5", "reasoningEffort": "max", "maxTokens": 100}
    body = wire_anthropic.body({"config": config}, [])
    assert body["max_tokens"] > body["thinking"]["budget_tokens"]


def test_blocks_keep_their_order_and_thinking_its_signature():
    redacted = thought("", redacted="opaque")
    assert wire(user("q"), answer(signed("hm"), text("a"), redacted, call("c1")), result("c1", "r")) == [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": signature("hm")},
                {"type": "text", "text": "a"},
                {"type": "redacted_thinking", "data": "opaque"},
                {"type": "tool_use", "id": "c1", "name": "echo", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]},
    ]


@pytest.mark.parametrize("source", [{**MODEL, "model": "claude-opus-5"}, {**MODEL, "provider": "deepseek"}])
def test_thinking_of_another_model_stays_out(source):
    assert wire(user("q"), answer(signed("hm"), text("a"), **source))[1]["content"] == [{"type": "text", "text": "a"}]


def test_unsigned_and_trailing_thinking_stays_out_and_an_answer_of_nothing_else_too():
    assert wire(user("q"), answer(thought("hm"), text("a"), signed("more")))[1]["content"] == [text("a")]
    assert wire(user("q"), answer(signed("hm")), user("go on")) == [
        {"role": "user", "content": "q"},
        {"role": "user", "content": "go on"},
    ]
    assert len(wire(user("q"), answer(signed("hm"), text(" \n")), user("go on"))) == 2


def test_white_space_between_blocks_is_kept():
    content = wire(user("q"), answer(signed("a"), text("\n\n"), signed("b"), text("done")))[1]["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "thinking", "text"]


def test_arguments_go_back_byte_for_byte():
    written = '{ "b":1e2, "a" : [1.0,\t"\\u00e9é"], "b": 2 }\n'
    assert f'"input":{written}' + "}" in sent(user("q"), answer(call("c1", written)), result("c1"))


def test_a_cut_surrogate_in_arguments_is_sendable():
    body = sent(user("q"), answer(call("c1", '{"a":"\ud83d"}')), result("c1"))
    assert '{"a":"\\ud83d"}' in body and body.encode()


@pytest.mark.parametrize("written", ['{"a":', "[1]", '"x"', "null", '{"a": NaN}', "{" * 400, "nonsense"])
def test_arguments_that_are_no_object_are_shown_to_the_model(written):
    assert wire(user("q"), answer(call("c1", written)), result("c1"))[1]["content"][0]["input"] == {
        "INVALID_JSON": written
    }


@pytest.mark.parametrize("written", ["", "  \n"])
def test_no_arguments_are_an_empty_object(written):
    assert wire(user("q"), answer(call("c1", written)), result("c1"))[1]["content"][0]["input"] == {}


def test_all_results_of_a_step_are_one_message_before_what_was_steered_in():
    steered = message("user", text("and hurry"), kind="user")
    found = wire(user("q"), answer(call("c1"), call("c2")), result("c2", "two"), steered, result("c1", isError=True))
    assert found[2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
                {"type": "tool_result", "tool_use_id": "c1", "content": "(no output)", "is_error": True},
            ],
        },
        {"role": "user", "content": "and hurry"},
    ]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_said():
    found = wire(user("q"), answer(call("c1")), user("next"), answer(text("a")), result("c9", "late"))
    [unanswered] = found[2]["content"]
    assert unanswered == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": wire_anthropic.NO_RESULT,
        "is_error": True,
    }
    assert found[-1] == {"role": "user", "content": wire_anthropic.ORPHAN + "late"}


def test_ids_fit_the_wire_and_are_unique():
    found = wire(
        user("q"),
        answer(call("functions.sh:0"), call("c 1", name="no.such tool")),
        result("c 1"),
        result("functions.sh:0"),
        answer(call("functions.sh:0")),
        result("functions.sh:0"),
    )
    uses = [b for m in found if m["role"] == "assistant" for b in m["content"]]
    assert [use["id"] for use in uses] == ["functions_sh_0", "c_1", "functions_sh_0_2"]
    assert uses[1]["name"] == "no_such_tool"
    assert [b["tool_use_id"] for b in found[2]["content"]] == ["c_1", "functions_sh_0"]
    assert found[4]["content"][0]["tool_use_id"] == "functions_sh_0_2"


def test_consecutive_user_messages_stay_apart_and_blank_ones_can_be_sent():
    note = message("user", text("note"), kind="plugin", plugin="sidechat")
    assert wire(user("hi"), note, user(" ")) == [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "note"},
        {"role": "user", "content": wire_anthropic.BLANK},
    ]


def test_a_history_that_starts_with_an_answer_gets_an_opening():
    assert wire(answer(text("a")), user("q"))[0] == {"role": "user", "content": wire_anthropic.OPENING}


@pytest.mark.parametrize(
    ("header", "messages", "code"),
    [
        (HEADER, [message("user", {"type": "image", "attachment": {}})], "unsupported_content"),
        (HEADER, [answer({"type": "image", "attachment": {}})], "unsupported_content"),
        ({"config": {**CONFIG, "reasoningEffort": "medium"}}, [], "unsupported_reasoning_effort"),
    ],
)
def test_refusals_name_their_code(header, messages, code):
    with pytest.raises(WireError) as refused:
        wire_anthropic.body(header, messages)
    assert refused.value.code == code


# --- any history ---

IDS = st.sampled_from(["c1", "c2", "call_0", "call_0_2", "functions.x:1", "", "é" * 70])
TEXTS = st.one_of(st.sampled_from(["", " ", "\n\n", "a", "\ud83d", "x\0y"]), st.text(max_size=8))
ARGUMENTS = st.one_of(st.sampled_from(["", "{}", "{", '{"a" : 1}', '{"a":"\ud83d"}', "[]"]), TEXTS)
BLOCKS = st.one_of(
    TEXTS.map(text),
    TEXTS.map(signed),
    TEXTS.map(thought),
    st.builds(call, IDS, ARGUMENTS, TEXTS),
    st.just({"type": "mystery"}),
    st.just({"type": "text", "text": 5}),
)
ANSWERS = st.builds(
    lambda blocks, foreign: answer(*blocks, **({**MODEL, "model": "other"} if foreign else MODEL)),
    st.lists(BLOCKS, min_size=1, max_size=5),
    st.booleans(),
)
INPUTS = st.one_of(TEXTS.map(user), st.builds(result, IDS, TEXTS))
HISTORIES = st.lists(st.one_of(ANSWERS, INPUTS), max_size=12)


@given(HISTORIES)
@settings(max_examples=400, deadline=None)
def test_the_server_takes_any_history(history):
    request = json.loads(sent(*history, user("and now?")))
    assert Messages(request).problem() == ""


@st.composite
def growing_log(draw):
    """A history as turns make it, and the lengths at which a request is sent."""
    history, requests = [], []
    for _ in range(draw(st.integers(1, 5))):
        history += draw(st.lists(TEXTS.map(user), min_size=1, max_size=3))
        for _ in range(draw(st.integers(1, 3))):
            requests.append(len(history))
            answered = draw(st.one_of(st.none(), ANSWERS))
            if answered is None:  # the request failed
                break
            history.append(answered)
            calls = [b["id"] for b in answered["content"] if b.get("type") == "tool-call"]
            history += [result(call_id, draw(TEXTS)) for call_id in calls]
            history += draw(st.lists(TEXTS.map(user), max_size=1)) if calls else []
            if not calls:
                break
    return history, requests


@given(growing_log())
@settings(max_examples=300, deadline=None)
def test_each_request_extends_the_one_before_byte_for_byte(log):
    history, requests = log
    bodies = [sent(*history[:length]) for length in requests]
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(shorter.removesuffix("]}"))
    for body in bodies:
        assert Messages(json.loads(body)).problem() == ""


@given(HISTORIES)
@settings(max_examples=200, deadline=None)
def test_bytes_depend_on_the_log_alone(history):
    copied = jsontext.loads(jsontext.dumps(history))
    assert sent(*history) == sent(*copied)


@corpus.over(corpus.ACCEPTED)
def test_corpus(case):
    messages = case.expected["messages"]
    header = {**(case.expected["requestHeader"] or {}), "config": CONFIG}
    if (case.expected.get("wireError") or {}).get("code") == "UNSUPPORTED_CONTENT":
        with pytest.raises(WireError):
            sent(*messages, header=header)
    else:
        assert Messages(json.loads(sent(*messages, user("go on"), header=header))).problem() == ""
