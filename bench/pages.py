"""What a page and a call cost over HTTP, beside `/healthz` as the floor of the same run.

    python -m bench.pages [--sessions 5000] [--runs 15] [--json FILE]

Prints medians of interleaved runs, as seen by a client on loopback: the first page of a conversation of 10 and of
1,000 messages, the list of few and of many sessions, and forks at 10 messages, 1,000 messages and 100,000 events.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.record import EVENTS_A_MESSAGE
from bench.server import Client, Server, provider, server


def measure(works: dict[str, Callable[[], Any]], runs: int) -> dict[str, dict[str, float]]:
    """`{name: {ms, min, max}}`; the first round warms up and does not count."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for n in range(runs + 1):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            if n:
                taken[name].append((time.perf_counter() - started) * 1000)
    return {n: {"ms": statistics.median(t), "min": min(t), "max": max(t)} for n, t in taken.items()}


def run(at: Server, many: int, runs: int) -> dict[str, dict[str, float]]:
    client = Client(at)
    few, thousand = (client.imported(f"m{n}", int(n * EVENTS_A_MESSAGE)) for n in (10, 1000))
    long = client.imported("long", 100_000)

    def get(path: str) -> Callable[[], Any]:
        return lambda: client.call("GET", path)

    def fork(session: str) -> Callable[[], Any]:
        return lambda: client.json("POST", f"/api/sessions/{session}/fork")

    floor = {"floor: /healthz": get("/healthz")}
    short_list = measure({**floor, "list, 3 sessions": get("/api/sessions")}, runs)
    for n in range(many):
        client.json("POST", "/api/sessions", {"title": f"Session {n}"})
    works = {
        **floor,
        "first page, 10 messages": get(f"/s/{few}/"),
        "first page, 1,000 messages": get(f"/s/{thousand}/"),
        f"list, {many:,} sessions": get("/api/sessions"),
        f"search among {many:,} sessions": get("/api/sessions?q=4999"),
        "fork, 10 messages": fork(few),
        "fork, 1,000 messages": fork(thousand),
        "fork, 100,000 events": fork(long),
    }
    return {**short_list, **measure(works, runs)}


def table(figures: dict[str, dict[str, float]]) -> str:
    floor = figures["floor: /healthz"]["ms"]
    rows = [f"{'ms, median (least to most)':<34}{'':>26}  × floor"]
    for name, figure in figures.items():
        spread = f"({figure['min']:.1f} to {figure['max']:.1f})"
        rows.append(f"{name:<34}{figure['ms']:>10.2f}{spread:>16}{figure['ms'] / floor:>9.1f}")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    with provider("") as url, server(url, SIDECHAT_DEFAULT_MODEL="custom/bench") as at:
        figures = run(at, options.sessions, options.runs)
    print(json.dumps(figures))
    print(table(figures))
    if options.json:
        with open(options.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
