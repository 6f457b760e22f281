"""Which wire and which dialect a config leads to; a body needs nothing but the log."""

import json

import pytest

from sidechat_web.runtime.providers import wire

CALL = {
    "type": "tool-call",
    "id": "c",
    "name": "t",
    "arguments": "{}",
    "extra_content": {"google": {"thought_signature": "s"}},
}


def message(role, *content, **source):
    return {"id": "i", "role": role, "content": list(content), "source": source or {"kind": "user"}}


HISTORY = [
    message("user", {"type": "text", "text": "q"}),
    message("assistant", {"type": "reasoning", "text": "hm"}, CALL, kind="model", provider="p", model="m"),
    message("user", {"type": "tool-result", "toolCallId": "c", "content": []}, kind="tool", callId="c"),
    message("assistant", {**CALL, "id": "d"}, kind="model", provider="p", model="m"),
    message("user", {"type": "tool-result", "toolCallId": "d", "content": []}, kind="tool", callId="d"),
]


def body(provider, **config):
    header = {"config": {"provider": provider, "model": "m", **config}}
    return json.loads(wire.encode(header, HISTORY, cache_key="root"))


def answers(provider):
    return [m for m in body(provider)["messages"] if m["role"] == "assistant"]


@pytest.mark.parametrize("provider", ["custom", "local", "deepseek-official", "never-heard-of"])
def test_the_standard_form(provider):
    first, second = answers(provider)
    assert first["reasoning_content"] == "hm" and "reasoning_content" not in second
    assert "extra_content" not in first["tool_calls"][0]
    assert "prompt_cache_key" not in body(provider)
    assert body(provider, reasoningEffort="high", maxTokens=5)["max_tokens"] == 5


def test_deepseek_wants_reasoning_beside_every_call():
    assert [m["reasoning_content"] for m in answers("deepseek")] == ["hm", ""]


def test_openai_takes_no_reasoning_and_names_things_its_way():
    assert not any("reasoning_content" in m for m in answers("openai"))
    found = body("openai", reasoningEffort="off", maxTokens=5)
    assert (found["reasoning_effort"], found["max_completion_tokens"], found["prompt_cache_key"]) == ("none", 5, "root")
    assert "thinking" not in found and "max_tokens" not in found


def test_gemini_gets_its_thought_signatures():
    first, second = answers("gemini")
    assert first["tool_calls"][0]["extra_content"] == second["tool_calls"][0]["extra_content"] == CALL["extra_content"]
    assert "reasoning_content" not in first


def test_ollama_calls_it_reasoning():
    assert answers("ollama")[0]["reasoning"] == "hm"


@pytest.mark.parametrize("config", [{"provider": "anthropic"}, {"provider": "mine", "protocol": "anthropic"}])
def test_messages(config):
    found = json.loads(wire.encode({"config": {"model": "m", **config}}, HISTORY, cache_key="root"))
    assert found["cache_control"] == {"type": "ephemeral"} and found["messages"][1]["content"][0]["type"] == "tool_use"
