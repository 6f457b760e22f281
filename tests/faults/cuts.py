"""Streams are followed while their sockets are cut at random: nothing is lost, doubled or out of order.

    python -m tests.faults.cuts --streams 50 --cuts 500 --seed 1 [--cluster]

With `--cluster` on two web processes and two workers with PostgreSQL and Redis; a cut viewer comes back to either.
Afterwards the text seen is the text logged and no viewer shows a running turn. Status 1 on any fault.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.cluster import cluster
from tests.faults.product import Product
from tests.faults.viewer import Viewer
from tests.scripted_provider import ScriptedProvider


@dataclass
class Run:
    """Streams on `webs`, cut as `rng` says."""

    webs: list[Product]
    rng: random.Random
    said: dict[str, list[str]] = field(default_factory=dict)  # session → the answers that were asked for
    faults: list[str] = field(default_factory=list)
    cuts_are_over: bool = False

    async def story(self, streams: int, cuts: int, pause: float) -> None:
        async with contextlib.AsyncExitStack() as stack:
            viewers = []
            for n in range(streams):
                session = (await self._call("POST", "/api/sessions", {}))["id"]
                viewer = Viewer(self.webs[n % len(self.webs)].url, session, self.webs[0].token)
                viewers.append(await stack.enter_async_context(viewer))
            talks = [asyncio.create_task(self._talk(viewer)) for viewer in viewers]
            await self._cut(viewers, cuts, pause)
            self.cuts_are_over = True
            await asyncio.gather(*talks)
            for viewer in viewers:
                await self._check(viewer)

    async def _cut(self, viewers: list[Viewer], cuts: int, pause: float) -> None:
        """Cut that many live connections."""
        while cuts:
            await asyncio.sleep(self.rng.uniform(0, 2 * pause))
            viewer = self.rng.choice(viewers)
            if viewer.status == "running":
                viewer.url = self.rng.choice(self.webs).url
                viewer.cut()
                cuts -= 1

    async def _talk(self, viewer: Viewer) -> None:
        """Ask for one answer after the other until the cuts are over; the last one is not cut."""
        answers = self.said[viewer.session_id] = []
        over = False
        while not over:
            over = self.cuts_are_over
            answers.append(self._answer(viewer.session_id, len(answers)))
            text = f"[[every:{self.rng.choice([10, 25, 50])}]][[say:{answers[-1]}]]"
            await self._call("POST", f"/api/sessions/{viewer.session_id}/messages", {"text": text})
            if not await _comes(lambda: _ended(viewer) == len(answers) and viewer.status == "idle"):
                self.faults.append(f"{viewer.session_id} shows {viewer.status} for ever")
                return

    def _answer(self, session: str, turn: int) -> str:
        marks = ("**bold**", "`code`", "😀", "e\u0301", "-", "|", "\n\n", "#")
        words = (f"{session[-4:]}.{turn}.{n} {self.rng.choice(marks)}" for n in range(self.rng.randint(1, 20)))
        return " ".join(words)

    async def _check(self, viewer: Viewer) -> None:
        session = viewer.session_id
        log = await asyncio.to_thread(self.webs[0].events, session)
        self.faults += [f"{session}: {breach}" for breach in viewer.breaches]
        if viewer.log != log:
            self.faults.append(f"{session}: other events were seen than are logged")
        answers = [e["data"]["message"]["content"][0]["text"] for e in log if e["type"] == "assistant/message"]
        if answers != self.said[session]:
            self.faults.append(f"{session}: other answers are logged than were given")
        if (last := viewer.blocks.get((len(answers), 1, 0))) != answers[-1]:
            self.faults.append(f"{session}: {last!r} was streamed of {answers[-1]!r}")

    async def _call(self, method: str, path: str, body: Any) -> Any:
        status, answer = await asyncio.to_thread(self.rng.choice(self.webs).call, method, path, body)
        assert status < 300, (status, answer)
        return answer


def _ended(viewer: Viewer) -> int:
    return sum(event["type"] == "turn/end" for event in viewer.events.values())


async def _comes(condition: Any, seconds: float = 60) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.02)
            return True
    return False


@contextlib.contextmanager
def servers(provider_url: str, *, is_cluster: bool) -> Iterator[list[Product]]:
    if is_cluster:
        with cluster(provider_url) as parts:
            yield parts.webs
    else:
        with tempfile.TemporaryDirectory() as folder, Product(Path(folder), provider_url) as product:
            yield [product]


def run(streams: int, cuts: int, seed: int, *, pause: float = 0.1, is_cluster: bool = False) -> list[str]:
    """The faults that the run shows; `pause` is the mean time between cuts, in seconds."""
    with ScriptedProvider() as provider, servers(provider.base_url, is_cluster=is_cluster) as webs:
        one = Run(webs, random.Random(seed))
        asyncio.run(one.story(streams, cuts, pause))
    answers = [answer for given in one.said.values() for answer in given]
    where = "2 web processes and 2 workers" if is_cluster else "1 process"
    print(
        f"{cuts} cuts over {streams} streams on {where}, seed {seed}: {len(answers)} answers,"
        f" {sum(map(len, answers))} characters, {len(one.faults)} faults"
    )
    return one.faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cluster", action="store_true")
    options = parser.parse_args()
    faults = run(options.streams, options.cuts, options.seed, is_cluster=options.cluster)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
