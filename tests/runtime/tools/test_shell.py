"""The shell tool: what it gives, what it hides, and that nothing survives it."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from sidechat_web.runtime.tools import builtin, shell
from sidechat_web.runtime.tools.registry import OUTPUT_CAP_CHARS, ToolError


async def run(root: Path, command: str):
    return await shell.run(root, {"command": command})


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


async def gone(pid: int) -> bool:
    for _ in range(200):
        if not alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


async def test_output_and_exit_code(root):
    result = await run(root, "pwd; echo to stderr >&2; cat readme.md | wc -l")
    assert result.text.split() == [str(root), "to", "stderr", "3"]
    assert not result.is_error and result.meta["exitCode"] == 0
    result = await run(root, "echo no; exit 3")
    assert result.text == "no\n[exit code 3]" and result.is_error
    assert (await run(root, "true")).text == "(no output)"
    assert (await run(root, "kill -9 $$")).text == "[ended by SIGKILL]"


async def test_no_input_is_waited_for(root):
    assert (await run(root, "cat; read x; echo done")).text == "done"


async def test_the_environment_holds_no_secret(root, monkeypatch):
    for name in ("OPENAI_API_KEY", "SIDECHAT_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "AWS_SECRET", "DJANGO_X"):
        monkeypatch.setenv(name, "leaked-value")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    text = (await run(root, "env")).text
    assert "leaked-value" not in text and "LC_ALL=C.UTF-8" in text and "PATH=" in text


@pytest.mark.parametrize("command", ["", "  ", "a\0b", "x" * 100_001, 7])
async def test_bad_commands(root, command):
    with pytest.raises(ToolError):
        await shell.run(root, {"command": command})


async def test_a_workspace_that_is_gone(tmp_path):
    with pytest.raises(ToolError, match="could not be started"):
        await run(tmp_path / "gone", "true")


async def test_a_flood_keeps_head_and_tail(root):
    result = await run(root, "seq 1 200000")
    assert result.text.startswith("1\n2\n3\n") and result.text.endswith("\n199999\n200000")
    assert "... cut:" in result.text and len(result.text) <= OUTPUT_CAP_CHARS
    assert "\ufffd" in (await run(root, r"printf '\xff'")).text


async def test_time_over_ends_the_whole_group_and_keeps_the_output(root, monkeypatch):
    monkeypatch.setattr(shell, "SECONDS", 1.0)
    result = await run(root, "trap '' TERM; echo started; (trap '' TERM; echo $BASHPID > pid; sleep 100; sleep 100)")
    assert result.text == "started\n[stopped after 1 second]" and result.is_error
    assert await gone(int((root / "pid").read_text()))


async def test_a_cancelled_call_ends_the_whole_group(root):
    task = asyncio.create_task(run(root, "(sleep 100 & echo $! > pid; wait)"))
    while not (root / "pid").exists() or not (root / "pid").read_text():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int((root / "pid").read_text()))


async def test_what_is_left_in_the_background_neither_blocks_nor_survives(root):
    started = time.monotonic()
    result = await run(root, "sleep 100 & echo $! > pid; echo done")
    assert result.text == "done" and time.monotonic() - started < 50
    assert await gone(int((root / "pid").read_text()))


async def test_no_descriptor_and_no_zombie_is_left(root):
    await run(root, "true")
    before = len(os.listdir("/proc/self/fd"))
    for command in ("true", "exit 1", "sleep 100 &", "seq 1 100000"):
        await run(root, command)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not [pid for pid in children() if not alive(pid)]


def test_it_is_offered_only_where_the_operator_says_so(settings):
    assert [t.name for t in builtin.source(None, None)] == []
    names = ["edit_file", "glob", "grep", "list_files", "read_file", "write_file"]
    assert sorted(t.name for t in builtin.source(None, "/w")) == names
    settings.SIDECHAT_ENABLE_SHELL = True
    assert sorted(t.name for t in builtin.source(None, "/w")) == sorted([*names, "shell"])


def test_only_what_changes_nothing_is_read_only(settings):
    settings.SIDECHAT_ENABLE_SHELL = True
    found = {t.name for t in builtin.source(None, "/w") if t.read_only}
    assert found == {"read_file", "list_files", "glob", "grep"}
