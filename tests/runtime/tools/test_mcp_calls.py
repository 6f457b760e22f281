"""Calls to a server of our own over both transports, with everything that it can do wrong."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import jsontext
from sidechat_web.runtime.tools import processes
from sidechat_web.runtime.tools.mcp import calls, connections, listing, servers, source
from sidechat_web.runtime.tools.mcp.servers import Server
from sidechat_web.runtime.tools.registry import OUTPUT_CAP_CHARS, Result

SCRIPT = Path(__file__).with_name("mcp_server.py")
read = sync_to_async(listing.read)
tools = sync_to_async(lambda: list(source.source(None, None)))


@pytest.fixture
def data(tmp_path, settings):
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return settings.DATA_DIR


@pytest.fixture
async def open_connections(transactional_db, data):
    yield connections.here()
    await connections.here().close()


@pytest.fixture
def here(tmp_path):
    """Where the server writes."""
    here = tmp_path / "here"
    here.mkdir()
    return here


def stdio(here: Path, name: str = "test", **more) -> Server:
    return Server(name, sys.executable, (str(SCRIPT), str(here)), **more)


@contextmanager
def listening(here: Path, *options: str, port: int = 0):
    """The server over HTTP; yields its port."""
    command = [sys.executable, str(SCRIPT), str(here), "--http", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PORT": str(port)}) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def http(port: int, **more) -> Server:
    return Server("test", url=f"http://127.0.0.1:{port}/mcp", **more)


@pytest.fixture(params=["stdio", "http"])
def server(request, here):
    """One server, over each transport."""
    if request.param == "stdio":
        yield stdio(here)
        return
    with listening(here) as port:
        yield http(port)


@pytest.fixture
def json_server(here):
    """One that answers in plain JSON instead of event streams."""
    with listening(here, "--json") as port:
        yield http(port)


async def call(server: Server, tool: str, **arguments) -> Result:
    async with asyncio.timeout(30):
        return await calls.call(server, tool, arguments)


async def pid_of(server: Server) -> int:
    return int((await call(server, "pid")).text)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def test_answers(open_connections, server):
    assert await call(server, "echo", text="hé 😀", times=2) == Result(
        "hé 😀hé 😀", meta={"server": "test", "tool": "echo"}
    )
    assert (await call(server, "picture")).text == "Here:\n[image: image/png, 6 bytes; not shown]\nThat was it."
    assert json.loads((await call(server, "numbers")).text) == {"a": 2, "b": 1}
    refused = await call(server, "refuse")
    assert refused.is_error and "not today" in refused.text
    for wrong in (await call(server, "echo", times="many"), await call(server, "nothing")):
        assert wrong.is_error and wrong.text
    assert (await call(server, "echo", text="on")).text == "on"


async def test_listing(open_connections, server):
    found = await open_connections.list_now(server)
    assert [tool.name for tool in found.tools] == sorted(tool.name for tool in found.tools) and len(found.tools) == 14
    assert await read(server) == found
    claims = {tool.name: tool.claims_read_only for tool in found.tools}
    assert claims["lie"] and claims["echo"] and not claims["write"] and not claims["plain"]


async def test_schemas_are_the_same_bytes_whatever_order_a_server_lists_in(open_connections, here, data):
    written = set()
    for seed in range(4):
        server = stdio(here, env=(("SEED", str(seed)),))
        await open_connections.list_now(server)
        (data / "mcp.json").write_text(
            json.dumps(
                {"mcpServers": {"test": {"command": server.command, "args": server.args, "env": {"SEED": str(seed)}}}}
            )
        )
        schemas = [tool.schema for tool in await tools()]
        assert len(schemas) == 14
        written.add(jsontext.dumps(schemas))
    assert len(written) == 1


async def test_calls_at_the_same_time(open_connections, server):
    answers = await asyncio.gather(*(call(server, "echo", text=str(n)) for n in range(30)))
    assert [answer.text for answer in answers] == [str(n) for n in range(30)]


async def test_one_process_serves_all_calls_and_ends_with_the_connections(open_connections, here):
    server = stdio(here)
    first = await pid_of(server)
    assert await pid_of(server) == first and alive(first)
    await open_connections.close()
    assert not alive(first)


async def test_a_server_configured_anew_is_started_anew(open_connections, here):
    first = await pid_of(stdio(here))
    second = await pid_of(stdio(here, env=(("X", "1"),)))
    assert second != first
    await until(lambda: not alive(first))


async def test_a_server_that_dies_during_a_call_is_reported_and_started_again(open_connections, here):
    server = stdio(here)
    running = asyncio.create_task(call(server, "hang"))
    await until((here / "hanging").exists)
    died = await call(server, "die")
    assert died.is_error and "ended during the call, so its outcome is unknown" in died.text
    assert "last words of the server" in died.text
    assert (await running).is_error
    assert (await call(server, "echo", text="again")).text == "again"
    assert (here / "deaths").read_text() == "x"


async def test_a_server_that_died_between_calls_is_started_again_unnoticed(open_connections, here):
    server = stdio(here)
    pid = await pid_of(server)
    os.kill(pid, 9)
    await until(lambda: processes.has_exited(pid))
    assert await pid_of(server) != pid


async def test_a_server_over_http_that_dies_and_returns(open_connections, here):
    with listening(here) as port:
        server = http(port)
        assert (await call(server, "die")).is_error
    gone = await call(server, "echo", text="x")
    assert gone.is_error and "could not be reached" in gone.text
    with listening(here, port=port):
        assert (await call(server, "echo", text="back")).text == "back"
        running = asyncio.create_task(call(server, "hang"))
        await until((here / "hanging").exists)
    ended = await running
    assert ended.is_error and "outcome is unknown" in ended.text
    with listening(here, port=port):
        assert (await call(server, "echo", text="unnoticed")).text == "unnoticed"


async def test_a_server_that_hangs_costs_its_time_and_no_other_call(open_connections, server, here):
    hasty = replace(server, seconds=1)
    others = asyncio.gather(*(call(hasty, "echo", text=str(n)) for n in range(5)))
    late = await call(hasty, "hang")
    assert late.is_error and "gave no answer within 1 seconds; the call was cancelled" in late.text
    assert not any(answer.is_error for answer in await others)
    assert (await call(hasty, "echo", text="on")).text == "on"


async def test_stop_returns_at_once_and_tells_the_server(open_connections, server, here):
    task = asyncio.create_task(call(server, "hang"))
    await until((here / "hanging").exists)
    task.cancel()
    started = asyncio.get_running_loop().time()
    await asyncio.wait([task])
    assert task.cancelled() and asyncio.get_running_loop().time() - started < 0.5
    assert (await call(server, "echo", text="on")).text == "on"
    await until((here / "cancelled").exists)


async def test_a_flood_is_cut_or_ends_the_connection(open_connections, server):
    much = await call(server, "flood", megabytes=2)
    assert len(much.text) <= OUTPUT_CAP_CHARS and "[… cut:" in much.text and not much.is_error
    too_much = await call(server, "flood", megabytes=9)
    assert too_much.is_error and len(too_much.text) < 1000
    assert (await call(server, "echo", text="on")).text == "on"


async def test_a_server_that_answers_in_plain_json(open_connections, json_server):
    assert (await call(json_server, "echo", text="hé 😀")).text == "hé 😀"
    too_much = await call(json_server, "flood", megabytes=9)
    assert too_much.is_error and len(too_much.text) < 1000
    assert (await call(replace(json_server, seconds=1), "hang")).is_error
    assert (await call(json_server, "echo", text="on")).text == "on"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("yes", "other things than messages"),
        ("head -c 200000000 /dev/zero", "more than 8 MiB"),
        ("echo no token: abcdefgh >&2; exit 1", "It said last: no token: …"),
        ("echo garbage; echo '{}'; echo '[1]'; sleep 0.1", ""),
        ("exit 0", ""),
        ("exec cat", ""),
        ("trap '' TERM; cat >/dev/null; while true; do sleep 1; done", ""),
    ],
)
async def test_a_program_that_is_no_server_is_reported(open_connections, monkeypatch, script, words):
    monkeypatch.setattr(connections, "CONNECT_SECONDS", 2.0)
    server = Server("odd", "/bin/sh", ("-c", script), env=(("TOKEN", "abcdefgh"),))
    failed = await call(server, "echo")
    assert failed.is_error and "'odd' could not be reached" in failed.text and words in failed.text
    assert "abcdefgh" not in failed.text


@pytest.mark.parametrize(
    "server",
    [
        Server("none", "/nonexistent/program"),
        Server("none", "sh", cwd="/nonexistent"),
        Server("none", url="http://127.0.0.1:1/mcp"),
        Server("none", url="http://[bad"),
    ],
)
async def test_a_server_that_is_not_there_is_reported(open_connections, server):
    failed = await call(server, "echo")
    assert failed.is_error and "'none' could not be reached" in failed.text
    found = await open_connections.list_now(server)
    assert found.error and not found.tools and await read(server) == found


async def test_an_address_that_is_no_server_is_reported(open_connections, provider_server):
    failed = await call(Server("odd", url=provider_server.base_url), "echo")
    assert failed.is_error and "HTTP status 404" in failed.text


async def test_the_environment_holds_no_secret(open_connections, here, monkeypatch):
    for name in ("OPENAI_API_KEY", "SIDECHAT_SECRET_KEY", "DATABASE_URL"):
        monkeypatch.setenv(name, "leaked-value")
    text = (await call(stdio(here, env=(("MINE", "given"),)), "environment")).text
    assert "leaked-value" not in text and "MINE=given" in text and "PATH=" in text


async def test_a_server_that_says_it_changed_is_listed_anew(open_connections, server):
    await call(server, "grow")
    async with asyncio.timeout(20):
        while not any(tool.name == "later" for tool in (await read(server)).tools):
            await asyncio.sleep(0.02)


async def test_servers_are_listed_beside_the_runner(open_connections, here, data):
    entry = {"command": sys.executable, "args": [str(SCRIPT), str(here)]}
    (data / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry, "b": {"command": "/nonexistent"}}}))
    task = asyncio.create_task(calls.serve())
    async with asyncio.timeout(20):
        while len(await sync_to_async(listing.read_all)(servers.configured())) < 2:
            await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait([task])
    assert {tool.name.split("__")[0] for tool in await tools()} == {"a"}
    tried: dict[str, float] = {}
    await calls.list_unlisted(tried)
    assert len(tried) == 1
