"""Programs that tools start: a small environment, a process group of their own, and a certain end."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Final

_GRACE_SECONDS: Final = 2.0
_KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")


def environment() -> dict[str, str]:
    """What a program may know of ours: where things are and how text is written; no key, secret or address."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}


def end_now(group: int) -> None:
    """Kill every process of the group; none left is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask the process's group to end, then kill what is left of it; also when the caller is cancelled meanwhile."""
    try:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        await ended(process, _GRACE_SECONDS)
    finally:
        end_now(process.pid)
    await ended(process, _GRACE_SECONDS)


async def ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for the process's end; whether it came in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    return process.returncode is not None


def has_exited(pid: int) -> bool:
    """Whether our child is no longer running, even where the event loop does not know it yet; False if unknown."""
    if not hasattr(os, "waitid"):  # macOS
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
