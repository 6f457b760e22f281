"""The Chat Completions body: what each kind of message becomes, and what is refused."""

import json

import pytest

from sidechat_web.core import wire_openai
from tests import corpus

HEADER = {"config": {"provider": "p", "model": "m"}}


def message(role, *content, **source):
    return {"id": "i", "role": role, "content": list(content), "source": source or {"kind": "user"}}


def text(value):
    return {"type": "text", "text": value}


def call(call_id, arguments="{}"):
    return {"type": "tool-call", "id": call_id, "name": "echo", "arguments": arguments}


def result(call_id, *content):
    block = {"type": "tool-result", "toolCallId": call_id, "isError": True, "content": list(content)}
    return message("user", block, kind="tool", callId=call_id)


def wire(*messages, header=HEADER):
    return wire_openai.body(header, messages)["messages"]


def test_keys_stand_in_wire_order():
    config = {**HEADER["config"], "reasoningEffort": "max", "temperature": 0.5, "maxTokens": 9, "stop": ["x"]}
    tool = {"parameters": {"type": "object"}, "name": "t", "description": "d"}
    body = wire_openai.body({"config": config, "system": "s", "tools": [tool]}, [], cache_key="root")
    assert wire_openai.encode(body).decode() == (
        '{"model":"m","messages":[{"role":"system","content":"s"}],"stream":true,'
        '"stream_options":{"include_usage":true},"prompt_cache_key":"root","thinking":{"type":"enabled"},'
        '"reasoning_effort":"max","tools":[{"type":"function","function":'
        '{"name":"t","description":"d","parameters":{"type":"object"}}}],'
        '"temperature":0.5,"max_tokens":9,"stop":["x"]}'
    )


def test_optional_parts_are_absent_when_not_set():
    assert list(wire_openai.body(HEADER, [])) == ["model", "messages", "stream", "stream_options"]


def test_blocks_are_joined_per_kind():
    blocks = [{"type": "reasoning", "text": "r1"}, text("a"), call("c1", "{bad"), {"type": "reasoning", "text": "r2"}]
    assert wire(message("assistant", *blocks, text("b"))) == [
        {
            "role": "assistant",
            "content": "ab",
            "reasoning_content": "r1r2",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "echo", "arguments": "{bad"}}],
        }
    ]


def test_assistant_without_text_has_empty_content():
    assert wire(message("assistant", {"type": "reasoning", "text": "r"})) == [
        {"role": "assistant", "content": "", "reasoning_content": "r"}
    ]


def test_tool_results_become_tool_messages():
    assert wire(result("c1", text("a"), text("b")), result("c2")) == [
        {"role": "tool", "tool_call_id": "c1", "content": "ab"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
    ]


def test_injected_context_is_a_user_message_and_never_merged():
    note = message("user", text("note"), kind="plugin", plugin="sidechat")
    assert wire(message("user", text("hi")), note, message("user")) == [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "note"},
        {"role": "user", "content": ""},
    ]


def test_effort_off_disables_thinking():
    body = wire_openai.body({"config": {"model": "m", "reasoningEffort": "off"}}, [])
    assert body["thinking"] == {"type": "disabled"} and "reasoning_effort" not in body


@pytest.mark.parametrize(
    "header, messages, code",
    [
        (HEADER, [message("user", {"type": "image", "attachment": {}})], "unsupported_content"),
        (HEADER, [result("c1", {"type": "image", "attachment": {}})], "unsupported_content"),
        ({"config": {"model": "m", "reasoningEffort": "medium"}}, [], "unsupported_reasoning_effort"),
    ],
)
def test_refusals_name_their_code(header, messages, code):
    with pytest.raises(wire_openai.WireError) as refused:
        wire_openai.body(header, messages)
    assert refused.value.code == code


def test_lone_surrogates_and_nul_are_encodable():
    sent = wire_openai.encode(wire_openai.body(HEADER, [message("user", text("\ud83d \0 \u2028 é"))]))
    assert json.loads(sent)["messages"][0]["content"] == "\ud83d \0 \u2028 é"
    assert b"\\ud83d" in sent and "é".encode() in sent


@corpus.over(corpus.ACCEPTED)
def test_corpus(case):
    expected = case.expected
    header = expected["requestHeader"] or {"config": {"model": "m"}}
    if expected["wire"] is None:
        with pytest.raises(wire_openai.WireError) as refused:
            wire_openai.body(header, expected["messages"])
        assert refused.value.code == expected["wireError"]["code"].lower()
    else:
        assert json.dumps(wire_openai.body(header, expected["messages"])) == json.dumps(expected["wire"])
