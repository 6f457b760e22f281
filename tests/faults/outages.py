"""What surrounds the product fails under load: its processes, Redis, PostgreSQL, the disk, the provider, the clock.

    python -m tests.faults.outages --sessions 100 --rounds 2 --seed 1

Two web processes and two workers, each session followed on both web processes. One fault at a time, while every
session has a message in flight. Ends with a table of fault, times injected, messages in flight, lost, doubled, and
seconds until everything was idle again everywhere; status 1 on any fault.
`disk` mounts a small file system, so it needs root; `clock` needs Debian's libfaketime; where one is missing, it is
not injected and the table says so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.cluster import Cluster, Run, cluster
from tests.faults.product import ROOT, Product, Worker
from tests.services import free_port, wait_for_port

KINDS = ("web", "worker", "redis", "postgres", "provider", "disk", "clock")
OUTAGE_SECONDS = 3
DISK_MEGABYTES = 400
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
_PROVIDER = """
import sys, threading
from tests.scripted_provider import ScriptedProvider
with ScriptedProvider(int(sys.argv[1])):
    threading.Event().wait()
"""


class Provider:
    """The scripted provider as a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", _PROVIDER, str(self.port)], cwd=ROOT)
        wait_for_port(self.port)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@dataclass
class Surroundings(Cluster):
    """The cluster, and what else can fail around it. `disk` is where all data are; None where it cannot be filled."""

    provider: Provider
    disk: Path | None
    clocks: dict[int, Path] = field(default_factory=dict)  # of web processes and workers, by id

    def kinds(self) -> tuple[str, ...]:
        missing = {"disk"} if self.disk is None else set()
        return tuple(kind for kind in KINDS if kind not in missing and (kind != "clock" or self.clocks))

    def strike(self, kind: str, rng: random.Random) -> None:
        match kind:
            case "provider":
                self.provider.kill()
                time.sleep(OUTAGE_SECONDS)
                self.provider.start()
            case "disk":
                self._fill_disk()
            case "clock":
                self._skew(rng.choice([*self.webs, *self.workers]), rng.choice(["+3600", "-3600"]))
            case _:
                super().strike(kind, rng)

    def _fill_disk(self) -> None:
        """Not a byte is free for a while; then an operator makes room and starts what gave up."""
        assert self.disk is not None
        ballast = self.disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * (1 << 16))
        time.sleep(OUTAGE_SECONDS)
        ballast.unlink()
        if self.postgres.has_ended():
            self.postgres.start()

    def _skew(self, part: Product | Worker, offset: str) -> None:
        """One process's clock is an hour off for a while, and then right again."""
        self.clocks[id(part)].write_text(offset)
        time.sleep(OUTAGE_SECONDS)
        self.clocks[id(part)].write_text("+0")

    def give_clocks(self, folder: Path) -> None:
        """Start every process anew with a clock of its own."""
        for number, part in enumerate([*self.webs, *self.workers]):
            clock = folder / f"clock-{number}"
            clock.write_text("+0")
            part.kill()
            part.env = {
                **part.env,
                "LD_PRELOAD": str(_FAKETIME[0]),
                "FAKETIME_TIMESTAMP_FILE": str(clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
            part.start()
            self.clocks[id(part)] = clock


@contextlib.contextmanager
def surroundings() -> Iterator[Surroundings]:
    with contextlib.ExitStack() as stack:
        provider = Provider()
        provider.start()
        stack.callback(provider.kill)
        disk = stack.enter_context(small_disk())
        with everything_on(disk):
            parts = stack.enter_context(cluster(provider.url))
        found = Surroundings(parts.webs, parts.workers, parts.redis, parts.postgres, provider, disk)
        if _FAKETIME:
            found.give_clocks(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        yield found


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of its own; None where we may not mount one."""
    with tempfile.TemporaryDirectory(prefix="sidechat-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m,mode=0755", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=False)


@contextlib.contextmanager
def everything_on(disk: Path | None) -> Iterator[None]:
    """Temporary directories are made on `disk` meanwhile."""
    before = tempfile.tempdir
    tempfile.tempdir = str(disk) if disk else before
    try:
        yield
    finally:
        tempfile.tempdir = before


@dataclass
class Outcome:
    """Of all strikes of one kind; messages."""

    in_flight: int = 0
    lost: int = 0
    doubled: int = 0


@dataclass
class Outages(Run):
    """A run whose messages are counted by the fault during which they were in flight."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)

    async def check(self) -> None:
        await super().check()
        kinds = self.parts.kinds() if isinstance(self.parts, Surroundings) else ()
        for session, texts in self.accepted.items():
            log = await asyncio.to_thread(self.parts.webs[0].events, session)
            said = Counter(e["data"]["content"][0]["text"] for e in log if e["type"] == "user/message")
            for text in texts:
                one = self.outcomes.setdefault(kinds[int(text.split()[1]) % len(kinds)], Outcome())
                one.in_flight += 1
                one.lost += said[text] == 0
                one.doubled += said[text] > 1


def run(sessions: int, rounds: int, seed: int) -> list[str]:
    """The faults that the run shows; prints its table."""
    with surroundings() as parts:
        kinds = parts.kinds()
        one = Outages(parts, random.Random(seed))
        asyncio.run(one.story(sessions, rounds * len(kinds), kinds))
    print(table(one, kinds, rounds))
    return one.faults


def table(one: Outages, kinds: tuple[str, ...], rounds: int) -> str:
    lines = [
        "| fault | injected | in flight | lost | doubled | idle again after, s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for kind in KINDS:
        found, heals = one.outcomes.get(kind, Outcome()), one.heals.get(kind, [])
        seconds = f"{min(heals):.1f} to {max(heals):.1f}" if heals else "–"
        times = rounds if kind in kinds else "not possible here"
        lines.append(f"| {kind} | {times} | {found.in_flight} | {found.lost} | {found.doubled} | {seconds} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the mount is taken away
    faults = run(options.sessions, options.rounds, options.seed)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
