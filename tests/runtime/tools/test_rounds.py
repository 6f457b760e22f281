"""The real tools in real turns: what a main session may do, what a side cannot, and a prefix that stays the same."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime import approvals, commands, runner
from sidechat_web.runtime.sidechat import side
from sidechat_web.runtime.tools import registry
from sidechat_web.runtime.tools.mcp import listing, servers
from sidechat_web.storage import reading
from sidechat_web.storage.models import McpListing
from tests.conftest import idle
from tests.runtime.tools.conftest import fingerprint

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
stop = sync_to_async(commands.stop)
open_side = sync_to_async(side.open_side)
open_approvals = sync_to_async(approvals.open_approvals)
decide = sync_to_async(approvals.decide)
SCRIPT = Path(__file__).with_name("mcp_server.py")


@pytest.fixture
def data(tmp_path, settings):
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return settings.DATA_DIR


@pytest.fixture
def two_servers(data, root):
    """`honest` is trusted by the operator, `liar` is not; both write into the workspace."""
    entry = {"command": sys.executable, "args": [str(SCRIPT), str(root)]}
    config = {"honest": {**entry, "trusted": True}, "liar": {**entry, "env": {"SEED": "1"}}}
    (data / "mcp.json").write_text(json.dumps({"mcpServers": config}))
    return config


async def until_listed():
    async with asyncio.timeout(20):
        while len(await sync_to_async(listing.read_all)(servers.configured())) < 2:
            await asyncio.sleep(0.05)


@sync_to_async
def results(session):
    """(text, is error, meta) of every tool result, in order."""
    session.refresh_from_db()
    found = [e.data for e in reading.events(session) if e.type == ev.TOOL_RESULT]
    blocks = [(data["message"]["content"][0], data.get("meta", {})) for data in found]
    return [(block["content"][0]["text"], bool(block.get("isError")), meta) for block, meta in blocks]


async def until_waiting(session):
    async with asyncio.timeout(10):
        while not (found := await open_approvals(session)):
            await asyncio.sleep(0.02)
    return found[0]


async def test_a_main_session_works_in_its_workspace(running, owner, root):
    session = await create(owner, cwd=str(root))
    edit = json.dumps({"path": "readme.md", "old": "two", "new": "2"})
    await say(
        session,
        f'[[call:read_file {{"path": "readme.md"}}]][[call:glob {{"pattern": "*.py"}}]][[call:edit_file {edit}]]',
    )
    asked = await until_waiting(session)
    assert (root / "readme.md").read_text() == "one\ntwo\nthree\n"
    await decide(asked, "allow-once")
    await idle(session)
    [read, found, edited] = await results(session)
    assert read[:2] == ("1\tone\n2\ttwo\n3\tthree", False) and found[:2] == ("src/app.py", False)
    assert edited[1] is False and "-two\n+2\n" in edited[2]["diff"] and edited[2]["added"] == 1
    assert (root / "readme.md").read_text() == "one\n2\nthree\n"


async def test_a_side_changes_nothing_whatever_its_model_calls(two_servers, running, owner, root, outside, settings):
    settings.SIDECHAT_ENABLE_SHELL = True
    await until_listed()
    session = await create(owner, cwd=str(root))
    await say(session, "hello")
    await idle(session)
    before = fingerprint(root.parent / "workspace"), fingerprint(outside)
    write = {"path": "new.txt", "content": "x", "read_only": True, "readOnlyHint": True}
    calls = [
        ("write_file", write), ("Write_File", write), ("write_file.", write), ("functions.write_file", write),
        ("edit_file", {"path": "readme.md", "old": "one", "new": "1"}), ("shell", {"command": "touch hacked"}),
        ("liar__lie", {"text": "x"}), ("liar__write", {"text": "x"}), ("liar__echo", {"text": "x"}),
        ("honest__write", {"text": "x"}), ("honest__plain", {"text": "x"}), ("honest__lie_", {"text": "x"}),
        ("read_file", {"path": "../outside/secret.txt"}),
    ]  # fmt: skip
    allowed = [("read_file", {"path": "readme.md"}), ("grep", {"pattern": "two"}), ("honest__echo", {"text": "hi"})]
    advisor = await open_side(session)
    script = "".join(f"[[call:{name} {json.dumps(arguments)}]]" for name, arguments in [*calls, *allowed])
    await say(advisor, script)
    await idle(advisor, seconds=40)
    answers = await results(advisor)
    assert len(answers) == len(calls) + len(allowed)
    assert all(is_error for _, is_error, _ in answers[: len(calls)])
    assert [text for text, _, _ in answers[len(calls) :]] == ["1\tone\n2\ttwo\n3\tthree", "readme.md:2:two", "hi"]
    assert (fingerprint(root.parent / "workspace"), fingerprint(outside)) == before


async def test_stop_ends_a_call_to_a_server(two_servers, running, owner, root):
    await until_listed()
    session = await create(owner, cwd=str(root))
    await say(session, "[[call:honest__hang {}]]")
    async with asyncio.timeout(20):
        while not (root / "hanging").exists():
            await asyncio.sleep(0.02)
    await stop(session)
    await idle(session)
    assert session.last_reason["kind"] == "aborted"
    assert [is_error for _, is_error, _ in await results(session)] == [True]
    await say(session, '[[call:honest__echo {"text": "still here"}]]')
    await idle(session)
    assert (await results(session))[-1][0] == "still here"


async def test_the_tools_stay_the_same_bytes_in_forks_and_after_restarts(
    transactional_db, provider, owner, root, two_servers, data
):
    def configure(seed):
        for entry in two_servers.values():
            entry["env"] = {"SEED": seed, "MORE": "5"}
        (data / "mcp.json").write_text(json.dumps({"mcpServers": two_servers}))

    configure("1")
    await runner.start()
    await until_listed()
    session = await create(owner, cwd=str(root))
    await say(session, "hello")
    await idle(session)
    await runner.stop()
    await McpListing.objects.all().adelete()
    configure("7")
    await runner.start()
    await until_listed()
    fork, advisor = await sync_to_async(commands.fork)(session), await open_side(session)
    for each in (session, fork, advisor):
        await say(each, "and on")
        await idle(each)
    for seed in ("7", "down"):
        configure(seed)
        fresh = await create(owner, cwd=str(root))
        await say(fresh, "hello")
        await idle(fresh)
        await runner.stop()
        await runner.start()
    await say(session, '[[call:honest__echo {"text": "x"}]] and on')
    await idle(session)
    assert "could not be reached" in (await results(session))[-1][0]
    await runner.stop()
    tools = [body[body.index(b'"tools":') :] for body in provider.bodies]
    assert len(tools) == 8 and len(set(tools)) == 1
    assert len(json.loads(provider.bodies[0])["tools"]) == 44
    prefix = provider.bodies[0][: provider.bodies[0].index(b'"hello"')]
    assert all(body.startswith(prefix) for body in provider.bodies)


async def test_without_a_workspace_there_are_no_workspace_tools(running, owner, provider, data):
    session = await create(owner)
    await say(session, '[[call:read_file {"path": "/etc/passwd"}]]')
    await idle(session)
    [(text, is_error, _)] = await results(session)
    assert is_error and "no tool named 'read_file'" in text
    assert not json.loads(provider.bodies[0]).get("tools") and registry.schemas(None) == []
