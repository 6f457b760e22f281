"""What the product adds to a provider's stream: latency of each token and CPU, beside the raw floor.

Run: `.venv/bin/python -m bench.streams --streams 50`; prints a table, then the same as one line of JSON.
Latency is from the send time in a token to its arrival in the client, in ms, of the streams' middle part;
`floor` reads the provider itself in the same run, with a client as thin. CPU is the server's, in seconds for
1,000 tokens, everything included. Rounds of floor and product alternate; figures are medians of them.

    --html        frames as browsers get them, instead of JSON
    --viewers N   sockets for each stream
    --stalled     one more socket for each stream that reads nothing
    --provider    base URL of another provider that takes `fake-<ttft>-<tokens>-<interval>` models
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from dataclasses import asdict, dataclass
from functools import partial
from urllib.parse import urlsplit

from bench.server import Server, provider, server
from bench.wire import Floor, Socket, Stamps


@dataclass(frozen=True)
class Plan:
    streams: int
    rate: float
    seconds: float
    html: bool
    viewers: int
    stalled: bool

    @property
    def tokens(self) -> int:
        return int(self.rate * self.seconds)

    @property
    def model(self) -> str:
        return f"fake-200-{self.tokens}-{1000 / self.rate:g}"


@dataclass(frozen=True)
class Round:
    floor_p50: float
    floor_p99: float
    p50: float
    p99: float
    worst: float
    cpu_s_per_1000: float
    resident_mb: float

    @property
    def ratio(self) -> float:
        return self.p99 / self.floor_p99


async def floor(url: str, plan: Plan) -> list[float]:
    loop, where = asyncio.get_running_loop(), urlsplit(url)
    streams = [Floor(url, plan.model, Stamps()) for _ in range(plan.streams)]
    for stream in streams:
        await loop.create_connection(lambda stream=stream: stream, where.hostname, where.port)
    await asyncio.gather(*(stream.done for stream in streams))
    return middle([stream.stamps for stream in streams])


async def product(running: Server, plan: Plan) -> tuple[list[float], float]:
    """The latencies, and the server's CPU seconds."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Semaphore(0)
    sessions = [
        (await running.call("POST", "/api/sessions", {"model": f"custom/{plan.model}"}))["id"]
        for _ in range(plan.streams)
    ]

    def receive(stamps: Stamps, frame: bytes) -> None:
        if b'"t":"delta"' in frame or b'data-frame="block"' in frame or b'data-frame="text"' in frame:
            stamps.take(frame)
        elif b'"turn/end"' in frame or b"turn-end" in frame:
            ended.release()

    sockets, all_stamps = [], []
    for session in sessions:
        path = f"/ws/sessions/{session}/" + ("" if plan.html else "?as=json")
        for n in range(plan.viewers + plan.stalled):
            all_stamps.append(stamps := Stamps())
            make = Socket(path, f"127.0.0.1:{running.port}", running.token, partial(receive, stamps))
            transport, socket = await loop.create_connection(lambda make=make: make, "127.0.0.1", running.port)
            await socket.opened
            if n == plan.viewers:
                transport.pause_reading()
            sockets.append(socket)
    before = running.cpu_seconds
    for session in sessions:
        await running.call("POST", f"/api/sessions/{session}/messages", {"text": "go"})
    for _ in range(plan.streams * plan.viewers):
        await ended.acquire()
    used = running.cpu_seconds - before
    for socket in sockets:
        socket.close()
    return middle(all_stamps), used


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 10) - 1]


def middle(streams: list[Stamps]) -> list[float]:
    """Without the first and last tenth of each stream, when streams start and end."""
    return [ms for s in streams for ms in s.latencies[len(s.latencies) // 10 : len(s.latencies) * 9 // 10]]


async def measure(url: str, running: Server, plan: Plan) -> Round:
    raw = await floor(url, plan)
    ours, used = await product(running, plan)
    return Round(
        floor_p50=percentile(raw, 50),
        floor_p99=percentile(raw, 99),
        p50=percentile(ours, 50),
        p99=percentile(ours, 99),
        worst=max(ours),
        cpu_s_per_1000=used / (plan.streams * plan.tokens) * 1000,
        resident_mb=running.resident_mb,
    )


def median(rounds: list[Round]) -> dict[str, float]:
    names = asdict(rounds[0])
    figures = {name: statistics.median(getattr(r, name) for r in rounds) for name in names}
    spread = [r.p99 for r in rounds]
    return {
        **figures,
        "p99_least": min(spread),
        "p99_most": max(spread),
        "ratio": statistics.median(r.ratio for r in rounds),
    }


async def run(plan: Plan, url: str, rounds: int) -> dict[str, object]:
    with provider(url) as base, server(base) as running:
        done = [await measure(base, running, plan) for _ in range(rounds)]
    return {**asdict(plan), "rounds": rounds, **{name: round(value, 3) for name, value in median(done).items()}}


def show(figures: dict[str, object]) -> None:
    for name, value in figures.items():
        print(f"{name:18} {value}")
    print(json.dumps(figures))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--streams", type=int, default=10)
    options.add_argument("--rate", type=float, default=20, help="tokens/s of each stream")
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--html", action="store_true")
    options.add_argument("--viewers", type=int, default=1)
    options.add_argument("--stalled", action="store_true")
    options.add_argument("--provider", default="")
    options.add_argument("--rounds", type=int, default=1)
    asked = options.parse_args()
    plan = Plan(asked.streams, asked.rate, asked.seconds, asked.html, asked.viewers, asked.stalled)
    show(asyncio.run(run(plan, asked.provider, asked.rounds)))


if __name__ == "__main__":
    main()
