"""The tool round: gates, approvals that survive a restart, one result a call, stop."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import approvals, commands, runner
from sidechat_web.runtime.sidechat import side
from sidechat_web.runtime.tools import gates, registry
from sidechat_web.runtime.tools.registry import Result, Tool, ToolError
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session
from tests.conftest import idle

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
stop = sync_to_async(commands.stop)
open_side = sync_to_async(side.open_side)
open_approvals = sync_to_async(approvals.open_approvals)
decide = sync_to_async(approvals.decide)


@pytest.fixture
def ran(monkeypatch):
    """Three tools, `look` (read-only), `change` and `slow`; returns what ran, in order."""
    calls = []

    async def look(root, arguments):
        calls.append(("look", arguments))
        return Result("seen", meta={"lines": 1})

    async def change(root, arguments):
        calls.append(("change", arguments))
        return Result("changed")

    async def slow(root, arguments):
        calls.append(("slow", arguments))
        await asyncio.sleep(30)
        return Result("late")

    async def broken(root, arguments):
        if arguments.get("kindly"):
            raise ToolError("no such file")
        raise RuntimeError("bug")

    shape = {"type": "object", "properties": {}}
    tools = [
        Tool("look", "Look.", shape, True, look),
        Tool("change", "Change.", shape, False, change),
        Tool("slow", "Slow.", shape, True, slow, timeout_seconds=20),
        Tool("broken", "Broken.", shape, True, broken),
    ]
    monkeypatch.setattr(registry, "sources", [lambda session, cwd: tools])
    return calls


@sync_to_async
def rows(session):
    session.refresh_from_db()
    return list(reading.events(session))


async def results(session):
    found = [e for e in await rows(session) if e.type == ev.TOOL_RESULT]
    return [(e.data["message"]["content"][0]["content"][0]["text"], e.data.get("error", {}).get("code")) for e in found]


async def until_waiting(session):
    async with asyncio.timeout(10):
        while not (found := await open_approvals(session)):
            await asyncio.sleep(0.02)
    return found[0]


async def test_read_only_tools_run_unasked_and_the_schemas_are_in_the_request(running, owner, ran, provider):
    session = await create(owner)
    await say(session, '[[call:look {"at": 1}]][[call:look {"at": 2}]][[call:broken {"kindly": 1}]][[call:broken {}]]')
    await idle(session)
    assert ran == [("look", {"at": 1}), ("look", {"at": 2})]
    assert await results(session) == [
        ("seen", None), ("seen", None), ("no such file", "FAILED"), ("broken failed unexpectedly.", "FAILED"),
    ]  # fmt: skip
    names = [t["function"]["name"] for t in json.loads(provider.bodies[0])["tools"]]
    assert names == ["broken", "change", "look", "slow"]
    assert session.last_reason == {"kind": "completed"}


@pytest.mark.parametrize(
    ("decision", "outcome", "result"),
    [
        ("allow-once", "allowed-once", ("changed", None)),
        ("deny", "rejected", ("The user did not allow this call. It was not run.", "REJECTED")),
    ],
)
async def test_a_change_waits_for_the_user(running, owner, ran, decision, outcome, result):
    session = await create(owner)
    await say(session, "[[call:change {}]]")
    asked = await until_waiting(session)
    await sync_to_async(session.refresh_from_db)()
    assert session.status == "waiting" and not ran
    await decide(asked, decision)
    await idle(session)
    assert session.status == "idle" and await results(session) == [result]
    log = await rows(session)
    [decided] = [e for e in log if e.type == ev.APPROVAL_DECIDED]
    assert decided.data["outcome"] == outcome
    with pytest.raises(SidechatError) as e:
        await decide(asked, "allow-session")
    assert e.value.code == "decided"


async def test_allowed_for_the_session_is_not_asked_again_and_not_inherited(running, owner, ran):
    session = await create(owner)
    await say(session, "[[call:change {}]]")
    await decide(await until_waiting(session), "allow-session")
    await idle(session)
    await say(session, "[[call:change {}]] again")
    await idle(session)
    assert len(ran) == 2
    fork = await sync_to_async(commands.fork)(session)
    await say(fork, "[[call:change {}]] in the fork")
    await until_waiting(fork)
    await stop(fork)
    await idle(fork)
    assert len(ran) == 2


async def test_an_ask_survives_a_restart(transactional_db, provider, owner, ran):
    await runner.start()
    session = await create(owner)
    await say(session, "[[call:look {}]][[call:change {}]][[call:look {}]]")
    asked = await until_waiting(session)
    await crash()
    await runner.start()
    await asyncio.sleep(0.3)
    await sync_to_async(session.refresh_from_db)()
    assert session.status == "waiting"
    await decide(asked, "allow-once")
    await idle(session)
    await runner.stop()
    assert [name for name, _ in ran] == ["look", "change", "look"]
    assert [code for _, code in await results(session)] == [None, None, None]
    assert session.last_reason == {"kind": "completed"}


async def crash():
    """End the runner as a kill does: its tasks stop where they are, its lock is released, nothing is written."""
    dead, runner._runner = runner._runner, None
    dead._unlisten()
    tasks = [*dead._background, *dead._driving.values()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    dead._presence._lock.close()


async def test_stop_answers_every_call(running, owner, ran):
    session = await create(owner)
    await say(session, "[[call:slow {}]][[call:change {}]]")
    async with asyncio.timeout(10):
        while not ran:
            await asyncio.sleep(0.02)
    await stop(session)
    await idle(session)
    assert [code for _, code in await results(session)] == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
    assert session.last_reason["kind"] == "aborted"


async def test_a_side_runs_only_what_the_host_knows_to_be_read_only(running, owner, ran):
    session = await create(owner)
    await say(session, "hello")
    await idle(session)
    forged = '[[call:change {"read_only": true}]][[call:Look {}]][[call:look {}]][[call:nope {}]][[call:look nonsense]]'
    child = await open_side(session, text=forged)
    await idle(child)
    assert ran == [("look", {})]
    assert [code for _, code in await results(child)] == ["DENIED", "DENIED", None, "DENIED", "DENIED"]


def test_deny_wins_over_ask_and_a_failing_gate_denies(monkeypatch):
    call = gates.Call(Session(), "c", "t", {}, None)
    allow, ask, deny = (lambda c: gates.Allow()), (lambda c: gates.Ask("a")), (lambda c: gates.Deny("d"))
    for order, expected in [
        ([allow, ask], gates.Ask("a")),
        ([ask, deny, allow], gates.Deny("d")),
        ([allow], gates.Allow()),
    ]:
        monkeypatch.setattr(gates, "pre_execute", order)
        assert gates.judge(call) == expected

    def broken(c):
        raise RuntimeError("bug")

    monkeypatch.setattr(gates, "pre_execute", [allow, broken])
    assert isinstance(gates.judge(call), gates.Deny)


async def test_step_limit_ends_the_turn(running, owner, ran, settings, provider):
    settings.SIDECHAT_STEP_LIMIT = 1
    session = await create(owner)
    await say(session, "[[call:look {}]]")
    await idle(session)
    assert session.last_reason["error"]["code"] == "STEP_LIMIT"
    assert (await rows(session))[-2].type == ev.STEP_END
