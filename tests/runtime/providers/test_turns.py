"""Whole turns on both wires: what is logged, what is sent again, how each fault ends."""

import itertools
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, requests, turn
from sidechat_web.runtime.sidechat import side
from sidechat_web.storage import reading
from tests.conftest import idle
from tests.scripted_wires import signature

from .conftest import KEY, sound

pytestmark = pytest.mark.usefixtures("wire", "running")

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
set_model = sync_to_async(commands.set_model)
open_side = sync_to_async(side.open_side)
rows = sync_to_async(lambda session, **k: list(reading.events(session, **k)))
body = sync_to_async(requests.body)
list_requests = sync_to_async(requests.list_requests)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Back off without waiting."""
    monkeypatch.setattr(turn.random, "uniform", lambda low, high: 0)


async def said(session, *texts):
    for text in texts:
        await say(session, text)
        await idle(session)


async def of_type(session, kind):
    return [event for event in await rows(session) if event.type == kind]


async def answers(session):
    return [event.data for event in await of_type(session, ev.ASSISTANT_MESSAGE)]


def extends(shorter, longer):
    """Whether a body is another one, continued: header equal, messages a prefix."""
    a, b = json.loads(shorter), json.loads(longer)
    before, after = a.pop("messages"), b.pop("messages")
    return a == b and after[: len(before)] == before


async def test_every_body_is_rebuilt_from_the_log_and_extends_the_one_before(owner, provider):
    session = await create(owner)
    await said(session, "first é 😀", "[[think:why]] second", "[[flaky:2]] third", '[[call:nothing {"a" : 1}]] fourth')
    assert len(provider.bodies) == 7
    rebuilt = [await body(session, n) for n in range(1, 8)]
    assert [text.encode() for text in rebuilt] == provider.bodies
    assert all(extends(a, b) for a, b in itertools.pairwise(provider.bodies))
    await sound(session)


async def test_reasoning_goes_back_as_it_came(owner, provider, wire):
    session = await create(owner)
    await said(session, "[[think:Hm, 😀.]][[call:nothing {}]] do", "again")
    [answer, *_] = await answers(session)
    sent = json.loads(provider.bodies[-1])["messages"]
    first = next(m for m in sent if m["role"] == "assistant")
    reasoning = answer["message"]["content"][0]
    if wire == "anthropic":
        assert reasoning == {"type": "reasoning", "text": "Hm, 😀.", "signature": signature("Hm, 😀.")}
        assert first["content"][0] == {"type": "thinking", "thinking": "Hm, 😀.", "signature": signature("Hm, 😀.")}
    else:
        assert reasoning == {"type": "reasoning", "text": "Hm, 😀."}
        assert first["reasoning_content"] == "Hm, 😀."


async def test_arguments_go_back_byte_for_byte(owner, provider, wire):
    session = await create(owner)
    written = '{ "path":"a\\u00e9", "n" : 1e2 }'
    await said(session, f"[[call:nothing {written}]]")
    [call] = await of_type(session, ev.TOOL_CALL)
    assert call.data["arguments"] == written
    expected = f'"input":{written}' if wire == "anthropic" else json.dumps(written)
    assert expected.encode() in provider.bodies[-1]


async def test_parallel_calls_are_answered_and_the_turn_goes_on(owner, provider):
    session = await create(owner)
    await said(session, '[[call:a {}]][[call:b {"x":]][[call:c []]] three at once', "next")
    assert len(await of_type(session, ev.TOOL_RESULT)) == 3
    assert session.last_reason == {"kind": "completed"} and session.last_turn == 2
    await sound(session)


async def test_usage_counts_what_was_cached(owner, wire):
    session = await create(owner)
    await said(session, "[[think:Hm.]] hello there, " + "long " * 100)
    usage = (await answers(session))[-1]["usage"]
    assert usage["cacheReadTokens"] > 0 and usage["inputTokens"] == 40 and usage["outputTokens"] > 0
    assert (usage.get("cacheWriteTokens") == 7) == (wire == "anthropic")


async def test_a_side_extends_its_parents_last_request(owner, provider):
    session = await create(owner)
    await said(session, "[[think:Hm.]] one", "[[call:nothing {}]] two")
    child = await open_side(session, text="why?")
    await idle(child)
    assert extends(provider.bodies[-2], provider.bodies[-1])
    await sound(child)


FROM_THE_USER = (ev.USER_MESSAGE, ev.CONTEXT_MESSAGE)
FAULTS = [
    # script, how the turn ends, code, retries, what is kept
    ("[[status:400]]", "error", "REQUEST", 0, None),
    ("[[status:401]]", "error", "AUTH", 0, None),
    ("[[status:403]]", "error", "AUTH", 0, None),
    ("[[status:404]]", "error", "REQUEST", 0, None),
    ("[[status:429]]", "error", "RATE_LIMIT", 5, None),
    ("[[status:500]]", "error", "SERVER", 5, None),
    ("[[status:529]]", "error", "SERVER", 5, None),
    ("[[flaky:3]][[say:after all]]", "completed", None, 3, "after all"),
    ("[[error]]", "error", ..., 5, None),
    ("[[error:first]]", "error", ..., 5, None),
    ("[[error:mid]][[say:one two three four]]", "error", ..., 0, "one two"),
    ("[[break]][[say:one two three four]]", "error", "CONNECTION", 0, "one two"),
    ("[[unfinished]][[say:one two]]", "error", "STREAM_BROKEN", 0, "one two"),
    ("[[bytes]][[say:one two three four]]", "error", "STREAM_BROKEN", 0, "one two"),
    ("[[malformed]][[say:one two three four]]", "completed", None, 0, "one two three four"),
    ("[[malformed]][[call:shell {}]]", "error", "STREAM_BROKEN", 0, None),
    ("[[refuse]][[say:one two]]", "error", "REFUSED", 0, "one two"),
    ("[[length]][[say:one two]]", "max-tokens", None, 0, "one two"),
    ("[[think:only thought]][[break]][[say:x]]", "error", "CONNECTION", 0, ""),
]


@pytest.mark.parametrize(("script", "kind", "code", "retries", "kept"), FAULTS, ids=[f[0] for f in FAULTS])
async def test_how_faults_end(owner, script, kind, code, retries, kept):
    session = await create(owner)
    await said(session, script)
    reason = session.last_reason
    assert reason["kind"] == kind
    if code is ...:
        assert reason["error"]["message"] == "scripted error"
    else:
        assert reason.get("error", {}).get("code") == code
    assert [event.data["retry"] for event in await of_type(session, ev.LLM_RETRY)] == [*range(1, retries + 1)]
    assert [ev.text_of(answer["message"]) for answer in await answers(session)] == ([] if kept is None else [kept])
    assert len(await list_requests(session)) == retries + 1
    await said(session, "and on")
    assert session.last_reason == {"kind": "completed"}
    await sound(session)


@pytest.mark.parametrize("script", ["[[hang]][[say:one two three four]]", "[[silent]]"])
async def test_silence_ends_the_turn(owner, settings, script):
    settings.SIDECHAT_STREAM_IDLE_SECONDS = 1
    session = await create(owner)
    await said(session, script)
    assert session.last_reason["error"]["code"] == "STREAM_IDLE"
    kept = [ev.text_of(answer["message"]) for answer in await answers(session)]
    assert kept == (["one two"] if "hang" in script else [])
    await said(session, "and on")
    assert session.last_reason == {"kind": "completed"}
    await sound(session)


async def test_bytes_without_events_are_not_silence(owner, settings):
    settings.SIDECHAT_STREAM_IDLE_SECONDS = 1
    session = await create(owner)
    await said(session, "[[beat:250]][[say:here]]")
    assert session.last_reason == {"kind": "completed"}


async def test_an_overflow_compacts_once_and_goes_on(owner):
    session = await create(owner)
    await said(session, "one", "two", "three", "[[overflow]] four")
    assert session.last_reason == {"kind": "completed"}
    assert len(await of_type(session, ev.COMPACTION_SUMMARY)) == 1
    await sound(session)


async def test_a_providers_words_are_shown_without_the_key(owner, provider):
    provider.refusal_words = f"Incorrect API key provided: {KEY}. Also sk-proj-abcdefghijkl; see http://user:pass@host/"
    session = await create(owner)
    await said(session, "[[status:401]]")
    assert session.last_reason["error"]["message"] == (
        "Incorrect API key provided: [key]. Also [key]; see http://[key]@host/"
    )
    assert not [event for event in await rows(session) if KEY in json.dumps(event.data)]


async def test_nobody_there(owner, settings, wire):
    settings.ANTHROPIC_BASE_URL = settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    if wire == "anthropic":
        settings.SIDECHAT_OPENAI_BASE_URL = ""
    session = await create(owner)
    await said(session, "hello")
    assert session.last_reason["error"]["code"] == "CONNECTION"
    assert session.last_reason["error"]["message"].startswith("cannot reach ")
    assert len(await of_type(session, ev.LLM_RETRY)) == 5


async def test_a_session_moves_between_the_wires_and_loses_nothing(owner, provider, settings, wire):
    settings.SIDECHAT_OPENAI_BASE_URL = settings.ANTHROPIC_BASE_URL = provider.base_url
    settings.ANTHROPIC_API_KEY = KEY
    session = await create(owner)
    models = ["anthropic/scripted", "custom/scripted", "anthropic/scripted-2", "custom/scripted"]
    for n, model in enumerate(models):
        await set_model(session, model)
        await said(session, f"[[think:thought {n}]][[call:no.such {{bad]][[call:b {{}}]] number {n}")
        assert session.last_reason == {"kind": "completed"}
    assert len(await of_type(session, ev.REQUEST_HEADER)) == len(models)
    last = provider.bodies[-1].decode()
    assert all(f"number {n}" in last and f"thought {n}" in last for n in range(4))
    await sound(session)


async def test_user_messages_are_joined_where_the_provider_is_set_to(owner, provider, settings):
    settings.SIDECHAT_JOIN_USER_MESSAGES = ["custom", "anthropic"]
    session = await create(owner)
    await said(session, "one")
    child = await open_side(session, text="why?")
    await idle(child)
    frame, question = [ev.text_of(event.data) for event in await rows(child) if event.type in FROM_THE_USER][-2:]
    joined = provider.bodies[-1]
    assert json.loads(joined)["messages"][-1] == {"role": "user", "content": f"{frame}\n\n{question}"}
    settings.SIDECHAT_JOIN_USER_MESSAGES = []
    await said(child, "and?")
    assert [m["content"] for m in json.loads(provider.bodies[-1])["messages"]].count(question) == 1
    assert [event.data["reason"] for event in await of_type(child, ev.REQUEST_HEADER)] == ["initial", "change"]
    assert [(await body(child, n)).encode() for n in (1, 2)] == [joined, provider.bodies[-1]]
    await sound(child)
