"""Turns against the scripted provider: what is logged, what is sent, how they end."""

import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, requests
from sidechat_web.storage import reading
from sidechat_web.storage.models import QueueItem
from tests.conftest import idle

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
stop = sync_to_async(commands.stop)
rows = sync_to_async(lambda session, **k: list(reading.events(session, **k)))
messages = sync_to_async(lambda session: reading.surface(session).messages())
body = sync_to_async(requests.body)


def texts(found):
    return [ev.text_of(m) for m in found]


async def test_one_turn_logs_the_usual_order(running, owner):
    session = await create(owner)
    await say(session, "hello")
    await idle(session)
    types = [e.type for e in await rows(session)]
    assert types == [
        "turn/start", "step/start", "user/message", "session/title", "request/header",
        "assistant/message", "step/end", "turn/end",
    ]  # fmt: skip
    assert texts(await messages(session)) == ["hello", "You said: hello"]
    assert session.last_reason == {"kind": "completed"}
    assert session.output_tokens > 0 and session.context_used > 0


async def test_chunks_rebuild_the_message(running, owner):
    session = await create(owner)
    await say(session, "[[think:Hm.]][[say:one two three four five]]")
    await idle(session)
    chunks = [e.data["chunk"] for e in await rows(session, chunks=True) if e.type == ev.ASSISTANT_CHUNK]
    text = "".join(c["text"] for c in chunks if c["type"] == "text-delta")
    assert text == "one two three four five"
    [answer] = [e for e in await rows(session) if e.type == ev.ASSISTANT_MESSAGE]
    assert answer.data["message"]["content"] == [
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "one two three four five"},
    ]


async def test_every_body_is_rebuilt_from_the_log(running, owner, provider):
    session = await create(owner)
    for text in ("first é 😀", "[[think:why]] second", "[[flaky:2]] third"):
        await say(session, text)
        await idle(session)
    assert len(provider.bodies) == 5
    rebuilt = [await body(session, n) for n in range(1, 6)]
    assert [b.encode() for b in rebuilt] == provider.bodies
    for shorter, longer in zip(provider.bodies, provider.bodies[1:], strict=False):
        a, b = json.loads(shorter), json.loads(longer)
        assert b["messages"][: len(a["messages"])] == a["messages"]


async def test_queued_messages_run_in_order_each_once(running, owner):
    session = await create(owner)
    for n in range(5):
        await say(session, f"[[every:5]] number {n}")
    await idle(session)
    asked = [t for t in texts(await messages(session)) if "number" in t and not t.startswith("You")]
    assert asked == [f"[[every:5]] number {n}" for n in range(5)]
    assert session.last_turn == 5


async def test_stop_keeps_the_text_and_the_queue(running, owner):
    session = await create(owner)
    await say(session, "[[every:50]][[say:" + "word " * 100 + "]]")
    await say(session, "next")
    while not [e for e in await rows(await fresh(session), chunks=True) if e.type == ev.ASSISTANT_CHUNK]:
        pass
    await stop(session)
    await idle(session)
    log = await rows(session)
    [first, second] = [e for e in log if e.type == ev.TURN_END]
    assert first.data["reason"] == {"kind": "aborted", "reason": {"kind": "user"}}
    [partial, _] = [e for e in log if e.type == ev.ASSISTANT_MESSAGE]
    assert partial.data["interrupted"] and ev.text_of(partial.data["message"]).startswith("word")
    assert second.data["reason"] == {"kind": "completed"}


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        ("[[status:401]]", "error", "AUTH"),
        ("[[break]][[say:one two three four]]", "error", "CONNECTION"),
        ("[[length]]", "max-tokens", None),
        ("[[malformed]][[say:a b c d]]", "completed", None),
    ],
)
async def test_how_turns_end(running, owner, script, kind, code):
    session = await create(owner)
    await say(session, script)
    await idle(session)
    assert session.last_reason["kind"] == kind
    assert session.last_reason.get("error", {}).get("code") == code
    await say(session, "and on")
    await idle(session)
    assert session.last_reason == {"kind": "completed"}


async def test_silence_ends_the_turn(running, owner, settings):
    settings.SIDECHAT_STREAM_IDLE_SECONDS = 1
    session = await create(owner)
    await say(session, "[[hang]][[say:one two three four]]")
    await idle(session)
    assert session.last_reason["error"]["code"] == "STREAM_IDLE"
    assert texts(await messages(session))[-1] == "one two"


async def test_unknown_tool_is_answered_and_the_turn_goes_on(running, owner):
    session = await create(owner)
    await say(session, '[[call:shell {"command": "ls"}]][[call:other {}]]')
    await idle(session)
    log = await rows(session)
    assert [e.type for e in log].count("tool/result") == 2
    assert session.last_reason == {"kind": "completed"}


async def test_started_input_is_marked_where_it_was_logged(running, owner):
    session = await create(owner)
    item = await say(session, "hello")
    await idle(session)
    item = await sync_to_async(QueueItem.objects.get)(pk=item.pk)
    assert item.seq == 2


@sync_to_async
def fresh(session):
    session.refresh_from_db()
    return session
