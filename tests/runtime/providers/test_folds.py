"""Provider events to chunks: what each becomes, and that nothing a server sends crashes a fold."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidechat_web.core import jsontext
from sidechat_web.core.assembly import Assembly
from sidechat_web.runtime.providers.anthropic_fold import MessagesFold
from sidechat_web.runtime.providers.failures import ProviderFailure
from sidechat_web.runtime.providers.openai_fold import ChatFold
from sidechat_web.runtime.providers.sdk import decoded


def folded(fold, *payloads):
    chunks = [chunk for payload in payloads for chunk in fold.feed(payload)]
    return [*chunks, *fold.end()]


def blocks(fold, *payloads):
    return Assembly.of(folded(fold, *payloads)).blocks()


def delta(finish=None, **given):
    return {"choices": [{"index": 0, "delta": given, "finish_reason": finish}]}


def call(index, arguments="", *, call_id=None, name=None, **more):
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"index": index, **({"id": call_id} if call_id else {}), "function": function, **more}


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index, **given):
    return {"type": "content_block_delta", "index": index, "delta": given}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def over(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


# --- Chat Completions ---


def test_chat_order_of_chunks():
    found = folded(
        ChatFold(),
        delta(reasoning_content="hm"),
        delta(content="a"),
        delta(content="b"),
        delta(tool_calls=[call(0, '{"x', call_id="c1", name="t")]),
        delta(tool_calls=[call(0, '":1}')]),
        delta("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    )
    assert [chunk["type"] for chunk in found] == [
        "block-start", "reasoning-delta", "block-end", "block-start", "text-delta", "text-delta", "block-end",
        "block-start", "tool-call-delta", "tool-call-delta", "block-end", "usage", "finish",
    ]  # fmt: skip
    assert found[8:10] == [
        {"type": "tool-call-delta", "index": 2, "id": "c1", "name": "t", "argumentsDelta": '{"x'},
        {"type": "tool-call-delta", "index": 2, "id": "c1", "argumentsDelta": '":1}'},
    ]
    assert found[-1] == {"type": "finish", "reason": {"kind": "tool-calls"}}


@given(st.text(st.characters(exclude_categories=()), min_size=1), st.sampled_from(["content", "reasoning_content"]))
def test_a_cut_surrogate_pair_comes_whole(text, field):
    data = text.encode("utf-16-le", "surrogatepass")
    units = [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]
    chunks = folded(ChatFold(), *(delta(**{field: unit}) for unit in units), delta("stop"))
    pieces = [chunk["text"] for chunk in chunks if chunk["type"].endswith("-delta")]
    whole = data.decode("utf-16-le", "surrogatepass")
    assert "".join(pieces) == whole == Assembly.of(chunks).blocks()[0]["text"]


def test_chat_calls_without_index_or_with_one_index_for_all():
    one = call(0, "{}", call_id="a", name="t")
    two = call(0, '{"x":1}', call_id="b", name="t")
    for calls in ([one, two], [{k: v for k, v in c.items() if k != "index"} for c in (one, two)]):
        found = blocks(ChatFold(), delta(tool_calls=calls), delta("stop"))
        assert [(b["id"], b["arguments"]) for b in found] == [("a", "{}"), ("b", '{"x":1}')]


def test_chat_calls_have_ids_of_their_own():
    calls = [call(0, call_id="a", name="t"), call(1, call_id="a", name="t"), call(2, name="t")]
    assert [b["id"] for b in blocks(ChatFold(), delta(tool_calls=calls), delta("tool_calls"))] == ["a", "a_1", "call_2"]


def test_chat_thought_signature_is_kept_with_its_call():
    state = {"google": {"thought_signature": "s", "other": 1}}
    [block] = blocks(ChatFold(), delta(tool_calls=[call(0, call_id="a", name="t", extra_content=state)]), delta("stop"))
    assert block["extra_content"] == {"google": {"thought_signature": "s"}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, {"inputTokens": 10, "outputTokens": 2}),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}},
            {"inputTokens": 2, "outputTokens": 2, "cacheReadTokens": 8},
        ),
        (
            {"prompt_tokens": 10, "prompt_cache_hit_tokens": 4, "completion_tokens": 2},
            {"inputTokens": 6, "outputTokens": 2, "cacheReadTokens": 4},
        ),
        (
            {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}},
            {"inputTokens": 1, "outputTokens": 9, "reasoningTokens": 7},
        ),
        ({"prompt_tokens": "x", "completion_tokens": True}, {"inputTokens": 0, "outputTokens": 0}),
    ],
)
def test_chat_usage(raw, expected):
    [usage] = [c["usage"] for c in folded(ChatFold(), delta("stop"), {"usage": raw}) if c["type"] == "usage"]
    assert usage == expected


@pytest.mark.parametrize(
    ("error", "message", "retryable"),
    [
        ({"message": "busy", "code": 503}, "busy", True),
        ({"message": "bad", "code": 400}, "bad", False),
        ("down", "down", True),
        ([{"error": {"message": "inner"}}], "inner", True),
    ],
)
def test_chat_errors_in_the_stream(error, message, retryable):
    with pytest.raises(ProviderFailure) as failed:
        folded(ChatFold(), {"error": error})
    assert (failed.value.failure["message"], failed.value.retryable) == (message, retryable)


# --- Messages ---


def test_messages_blocks_and_usage():
    found = folded(
        MessagesFold(),
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 90}}},
        start(0, type="thinking", thinking="", signature=""),
        more(0, type="thinking_delta", thinking="hm"),
        more(0, type="signature_delta", signature="sig"),
        stop(0),
        start(1, type="redacted_thinking", data="opaque"),
        stop(1),
        start(2, type="text", text=""),
        {"type": "ping"},
        more(2, type="text_delta", text="a"),
        stop(2),
        start(3, type="server_tool_use", id="s", name="web_search", input={}),
        more(3, type="input_json_delta", partial_json="{}"),
        stop(3),
        start(4, type="tool_use", id="c1", name="t", input={}),
        more(4, type="input_json_delta", partial_json='{"x": '),
        more(4, type="input_json_delta", partial_json="1}"),
        stop(4),
        over("tool_use", output_tokens=7, output_tokens_details={"thinking_tokens": 3}, cache_creation_input_tokens=2),
        {"type": "message_stop"},
    )
    assert [chunk["block"] for chunk in found if chunk["type"] == "block-end"] == [
        {"type": "reasoning", "text": "hm", "signature": "sig"},
        {"type": "reasoning", "text": "", "redacted": "opaque"},
        {"type": "text", "text": "a"},
        {"type": "tool-call", "id": "c1", "name": "t", "arguments": '{"x": 1}'},
    ]
    assert found[-2]["usage"] == {
        "inputTokens": 5,
        "outputTokens": 7,
        "cacheReadTokens": 90,
        "cacheWriteTokens": 2,
        "reasoningTokens": 3,
    }
    assert found[-1] == {"type": "finish", "reason": {"kind": "tool-calls"}}
    assert [c["index"] for c in found if c["type"] == "block-start"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("given_input", "parts", "expected"),
    [({}, [""], "{}"), ({"a": [1]}, [], '{"a":[1]}'), ({}, ['{"a"', ":1}"], '{"a":1}')],
)
def test_messages_tool_input_whole_or_in_pieces(given_input, parts, expected):
    pieces = [more(0, type="input_json_delta", partial_json=part) for part in parts]
    found = folded(
        MessagesFold(),
        start(0, type="tool_use", id="c", name="t", input=given_input),
        *pieces,
        stop(0),
        over("tool_use"),
    )
    assert "".join(c["argumentsDelta"] for c in found if c["type"] == "tool-call-delta") == expected
    assert Assembly.of(found).blocks()[0]["arguments"] == expected


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "max-tokens"),
        ("model_context_window_exceeded", "max-tokens"),
        ("a new one", "stop"),
    ],
)
def test_messages_stop_reasons(reason, kind):
    assert folded(MessagesFold(), over(reason))[-1] == {"type": "finish", "reason": {"kind": kind}}


def test_messages_refusal_is_a_failure_after_what_was_said():
    fold, seen = MessagesFold(), []
    for payload in (start(0, type="text", text="no"), {**over("refusal"), "usage": {"output_tokens": 1}}):
        seen += fold.feed(payload)
    with pytest.raises(ProviderFailure) as failed:
        for chunk in fold.end():
            seen.append(chunk)
    assert failed.value.failure["code"] == "REFUSED" and not failed.value.retryable
    assert [c["type"] for c in seen] == ["block-start", "text-delta", "block-end", "usage"]


@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [
        ("overloaded_error", "SERVER", True),
        ("rate_limit_error", "RATE_LIMIT", True),
        ("invalid_request_error", "PROVIDER", False),
    ],
)
def test_messages_errors_in_the_stream(kind, code, retryable):
    with pytest.raises(ProviderFailure) as failed:
        folded(MessagesFold(), {"type": "error", "error": {"type": kind, "message": "words"}})
    assert failed.value.failure == {"message": "words", "code": code} and failed.value.retryable is retryable


@pytest.mark.parametrize("last", [over("end_turn"), {"type": "message_stop"}])
def test_messages_finished_by_reason_or_by_end(last):
    fold = MessagesFold()
    assert not fold.finished
    list(fold.feed(last))
    assert fold.finished


# --- anything at all ---

KEYS = [
    "type", "index", "delta", "content_block", "message", "usage", "id", "name", "input", "text", "thinking",
    "signature", "data", "partial_json", "stop_reason", "stop_details", "choices", "content",
    "reasoning_content", "tool_calls", "function", "arguments", "finish_reason", "extra_content", "google",
    "thought_signature", "prompt_tokens", "input_tokens", "output_tokens_details", "prompt_tokens_details",
]  # fmt: skip
WORDS = [
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "text", "thinking", "redacted_thinking", "tool_use", "text_delta", "thinking_delta",
    "input_json_delta", "signature_delta", "tool_calls", "stop", "\ud83d", "",
]  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(WORDS))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
PAYLOADS = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5),
    st.builds(start, st.integers(0, 2), type=st.sampled_from(WORDS), id=VALUES, name=VALUES, input=VALUES, text=VALUES),
    st.builds(more, st.integers(0, 2), type=st.sampled_from(WORDS), text=VALUES, partial_json=VALUES, signature=VALUES),
    st.builds(stop, st.integers(0, 2)),
    st.builds(lambda v, w: delta(v, content=w, tool_calls=[w, call(v, "{}", name="t")]), VALUES, VALUES),
    st.builds(lambda v: {"choices": [v], "usage": v}, VALUES),
)


@pytest.mark.parametrize("fold", [ChatFold, MessagesFold])
@given(payloads=st.lists(PAYLOADS, max_size=8))
@settings(max_examples=400, deadline=None)
def test_no_payload_crashes_a_fold(fold, payloads):
    chunks = folded(fold(), *payloads)
    assert jsontext.loads(jsontext.dumps(chunks)) == chunks
    started = [c["index"] for c in chunks if c["type"] == "block-start"]
    ended = [c["index"] for c in chunks if c["type"] == "block-end"]
    assert started == list(range(len(started))) and sorted(ended) == started
    found = Assembly.of(chunks).blocks()
    calls = [b["id"] for b in found if b["type"] == "tool-call"]
    assert len(calls) == len(set(calls)) and all(calls)
    for block in found:
        streamed = [c for c in chunks if c["type"].endswith("-delta") and c["index"] == found.index(block)]
        text = "".join(c.get("text", c.get("argumentsDelta")) for c in streamed)
        assert text == block.get("text", block.get("arguments"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {}),
        ('{"a": NaN, "b": [Infinity, 1e999, 1.5]}', {"a": None, "b": [None, None, 1.5]}),
        ("[]", None),
        ("{", None),
        ("", None),
        ('{"a":' * 5000, None),
        ('{"a":' * 5000 + "1" + "}" * 5000, None),
    ],
)
def test_only_objects_are_payloads(text, expected):
    assert decoded(text) == expected
    assert expected is None or json.dumps(expected, allow_nan=False)
