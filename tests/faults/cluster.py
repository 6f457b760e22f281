"""Two web processes and two workers on PostgreSQL and Redis, killed and restarted in turn under load.

    python -m tests.faults.cluster --sessions 100 --kills 20 --seed 1

Each session is followed over sockets on both web processes while messages are sent to it. Afterwards: nothing
accepted is lost or ran twice, every log passes the check, text as seen equals text as logged, no spinner is left,
an interrupted turn was shown as such within 15 seconds and could be continued. Ends with a table; status 1 on any
fault.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.product import Product, Worker
from tests.faults.viewer import Viewer
from tests.scripted_provider import ScriptedProvider
from tests.services import Service, create_database, postgres_server, redis_server

SHOWN_SECONDS = 15
KINDS = ("web", "worker", "redis", "postgres")


@dataclass
class Cluster:
    webs: list[Product]
    workers: list[Worker]
    redis: Service
    postgres: Service

    def strike(self, kind: str, rng: random.Random) -> None:
        """Kill or restart one part, and bring it back."""
        if kind == "web":
            victim: Any = rng.choice(self.webs)
        elif kind == "worker":
            victim = rng.choice(self.workers)
        else:
            (self.redis if kind == "redis" else self.postgres).restart()
            return
        victim.kill()
        victim.start()


@contextlib.contextmanager
def cluster(provider_url: str) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        redis, postgres = stack.enter_context(redis_server()), stack.enter_context(postgres_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = {
            "DATABASE_URL": create_database(postgres, "sidechat"),
            "REDIS_URL": f"redis://127.0.0.1:{redis.port}/0",
            "SIDECHAT_RUNNER": "procrastinate",
        }
        webs = [stack.enter_context(Product(folder, provider_url, **environment)) for _ in range(2)]
        workers = [stack.enter_context(Worker(webs[0])) for _ in range(2)]
        yield Cluster(webs, workers, redis, postgres)


@dataclass
class Run:
    """What was accepted, and what was seen."""

    parts: Cluster
    rng: random.Random
    accepted: dict[str, list[str]] = field(default_factory=dict)
    viewers: dict[str, list[Viewer]] = field(default_factory=dict)
    heals: dict[str, list[float]] = field(default_factory=dict)
    shown: dict[str, list[float]] = field(default_factory=dict)  # from a strike to an interrupted turn on a socket
    faults: list[str] = field(default_factory=list)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of either web process; None where it is gone."""
        web = self.rng.choice(self.parts.webs)
        with contextlib.suppress(OSError, ValueError):
            status, answer = await asyncio.to_thread(web.call, method, path, body, timeout=10)
            return answer if status < 300 else None

    async def until(self, method: str, path: str, body: Any = None) -> Any:
        async with asyncio.timeout(60):
            while (answer := await self.call(method, path, body)) is None:
                await asyncio.sleep(0.2)
        return answer

    async def say(self, session: str, n: int) -> None:
        text = f"message {n} of {session} [[every:{self.rng.choice([20, 50, 100])}]][[say:{'word ' * 30}]]"
        if await self.call("POST", f"/api/sessions/{session}/messages", {"text": text}):
            self.accepted[session].append(text)

    async def story(self, sessions: int, kills: int, kinds: tuple[str, ...]) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(sessions):
                session = (await self.until("POST", "/api/sessions", {}))["id"]
                self.accepted[session] = []
                token = self.parts.webs[0].token
                self.viewers[session] = [
                    await stack.enter_async_context(Viewer(web.url, session, token)) for web in self.parts.webs
                ]
            for n in range(kills):
                await asyncio.gather(*(self.say(session, n) for session in self.accepted))
                await asyncio.sleep(self.rng.uniform(0, 1.5))
                kind = kinds[n % len(kinds)]
                struck = time.monotonic()
                await asyncio.to_thread(self.parts.strike, kind, self.rng)
                await self.settle()
                self.heals.setdefault(kind, []).append(time.monotonic() - struck)
                await self.go_on(kind, struck)
            await self.check()

    async def go_on(self, kind: str, struck: float) -> None:
        """Continue the turns that the strike interrupted; notes when each was shown to be."""
        interrupted = {}
        for session, viewers in self.viewers.items():
            for viewer in viewers:
                shown = [viewer.times[e["seq"]] - struck for e in viewer.log if _is_interrupted(e)]
                if fresh := [seconds for seconds in shown if seconds > 0]:
                    interrupted[session] = max(interrupted.get(session, 0), *fresh)
        self.shown.setdefault(kind, []).extend(interrupted.values())
        for session, seconds in interrupted.items():
            if seconds > SHOWN_SECONDS:
                self.faults.append(f"{session}: interrupted was shown {seconds:.1f} s after the {kind} was struck")
            await self.until("POST", f"/api/sessions/{session}/continue", {})
        await self.settle()
        for session in interrupted:
            ended = (await self.until("GET", f"/api/sessions/{session}"))["lastTurn"]
            if ended["reason"] != {"kind": "completed"}:
                self.faults.append(f"{session} was not continued: {ended}")

    async def settle(self, seconds: float = 120) -> None:
        """Wait until every session is idle and every viewer shows it."""
        try:
            async with asyncio.timeout(seconds):
                for session in self.accepted:
                    while not await self._is_idle(session):
                        await asyncio.sleep(0.2)
                while busy := [v for vs in self.viewers.values() for v in vs if v.status != "idle"]:
                    await asyncio.sleep(0.2)
        except TimeoutError:
            self.faults.append(f"not idle after {seconds} s, {len(busy)} viewers still show a running turn")

    async def _is_idle(self, session: str) -> bool:
        found = await self.call("GET", f"/api/sessions/{session}")
        queued = await self.call("GET", f"/api/sessions/{session}/queue")
        return bool(found and queued and found["status"] == "idle" and not queued["items"])

    async def check(self) -> None:
        await asyncio.sleep(1)
        for session, texts in self.accepted.items():
            log = await asyncio.to_thread(self.parts.webs[0].events, session)
            said = Counter(e["data"]["content"][0]["text"] for e in log if e["type"] == "user/message")
            self.faults += [f"{t[:40]!r} is logged {said[t]} times" for t in texts if said[t] != 1]
            for viewer in self.viewers[session]:
                self.faults += [f"{session}: {breach}" for breach in viewer.breaches]
                if [viewer.events[seq] for seq in sorted(viewer.events)] != log:
                    self.faults.append(f"{session}: a viewer saw other events than are logged")
        found = await asyncio.to_thread(self.parts.webs[0].manage, "check_logs")
        if found.returncode:
            self.faults.append(found.stdout + found.stderr)


def _is_interrupted(event: dict[str, Any]) -> bool:
    return event["type"] == "turn/end" and event["data"]["reason"]["kind"] == "interrupted"


def run(sessions: int, kills: int, seed: int, kinds: tuple[str, ...] = KINDS) -> list[str]:
    """The faults that the run shows; prints its table."""
    with ScriptedProvider() as provider, cluster(provider.base_url) as parts:
        one = Run(parts, random.Random(seed))
        asyncio.run(one.story(sessions, kills, kinds))
    accepted = sum(map(len, one.accepted.values()))
    print(f"{sessions} sessions, {kills} strikes, seed {seed}: {accepted} messages, {len(one.faults)} faults")
    for kind, heals in one.heals.items():
        shown = one.shown[kind]
        print(
            f"  {kind:9} {len(heals):3} strikes, idle again after {max(heals):.1f} s at most;"
            f" {len(shown)} turns interrupted, shown after {max(shown, default=0):.1f} s at most"
        )
    return one.faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = run(options.sessions, options.kills, options.seed)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
