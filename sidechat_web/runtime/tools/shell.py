"""One shell command in the workspace.

Only where the operator has turned it on: a command can do whatever the server's user can.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from . import arguments, processes
from .output import count
from .registry import Result, ToolError

SECONDS: Final = 120.0
HEAD_BYTES: Final = 20_000
TAIL_BYTES: Final = 30_000
MAX_COMMAND_CHARS: Final = 100_000
_AFTERMATH_SECONDS: Final = 0.3  # for output that is still on its way when the shell has ended
_SHELL: Final = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


class Capture(asyncio.Protocol):
    """The head and the tail of what a program writes; what is between is counted and dropped."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def data_received(self, data: bytes) -> None:
        self._total += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    @property
    def text(self) -> str:
        tail = self._tail[-TAIL_BYTES:]
        dropped = self._total - len(self._head) - len(tail)
        mark = b"\n[... cut: %d bytes ...]\n" % dropped if dropped else b""
        return (self._head + mark + tail).decode("utf-8", "replace")


async def run(root: Path, given: dict[str, Any]) -> Result:
    """Run `command` until it ends, its time is over or the call is cancelled; its process group never outlives that."""
    command = arguments.text(given, "command")
    if not command.strip() or "\0" in command or len(command) > MAX_COMMAND_CHARS:
        raise ToolError(f"'command' must have 1 to {MAX_COMMAND_CHARS} characters, none of them NUL.")
    started = time.monotonic()
    capture, code = await _run(command, root)
    seconds = time.monotonic() - started
    ending = _ending(code)
    text = capture.text.rstrip("\n")
    return Result(
        "\n".join(part for part in (text, ending) if part) or "(no output)",
        is_error=code != 0,
        meta={"exitCode": code, "seconds": round(seconds, 2)},
    )


async def _run(command: str, root: Path) -> tuple[Capture, int | None]:
    """What it wrote and its exit code; None where its time was over."""
    reading, writing = os.pipe()
    source = os.fdopen(reading, "rb", buffering=0)
    transport, capture = await asyncio.get_running_loop().connect_read_pipe(Capture, source)
    try:
        process = await _start(command, root, writing)
        try:
            async with asyncio.timeout(SECONDS):
                code: int | None = await process.wait()
            await _aftermath(capture)
        except TimeoutError:
            code = None
        finally:
            processes.end_now(process.pid)
    finally:
        transport.close()
    return capture, code


async def _start(command: str, root: Path, output: int) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            _SHELL,
            "-c",
            command,
            cwd=root,
            env={**processes.environment(), "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except OSError as e:
        raise ToolError(f"The command could not be started: {e.strerror}.") from None
    finally:
        os.close(output)


async def _aftermath(capture: Capture) -> None:
    try:
        async with asyncio.timeout(_AFTERMATH_SECONDS):
            await capture.closed.wait()
    except TimeoutError:
        pass  # a program in the background still holds the output


def _ending(code: int | None) -> str:
    if code is None:
        return f"[stopped after {count(round(SECONDS), 'second')}]"
    if code < 0:
        return f"[ended by {signal.Signals(-code).name}]"
    return f"[exit code {code}]" if code else ""
