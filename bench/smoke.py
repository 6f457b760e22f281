"""The short forms of the measurements, in about a minute: is this build roughly as fast as it should be?

Run: `.venv/bin/python -m bench.smoke`; prints each figure with its target. Status 1 if one is missed by more than half.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

from bench import start
from bench.streams import Plan, run


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    target: float

    @property
    def is_missed(self) -> bool:
        return self.value > 1.5 * self.target


def streams(count: int, *, html: bool = False) -> dict[str, float]:
    return asyncio.run(run(Plan(count, rate=20, seconds=5, html=html, viewers=1, stalled=False), "", rounds=1))  # type: ignore[return-value]


def measure() -> list[Figure]:
    started = start.measure(1)
    ten, fifty, html = streams(10), streams(50), streams(50, html=True)
    return [
        Figure("start to first page, s", started["start_s"], 3),
        Figure("resident when idle, MB", started["idle_mb"], 130),
        Figure("latency added, p99 of 10 streams, ms", ten["p99"] - ten["floor_p99"], 10),
        Figure("latency added, p99 of 50 streams, ms", fifty["p99"] - fifty["floor_p99"], 50),
        Figure("CPU for 1,000 tokens at 50 streams, s", fifty["cpu_s_per_1000"], 0.9),
        Figure("CPU of HTML frames against JSON", html["cpu_s_per_1000"] / fifty["cpu_s_per_1000"], 2),
    ]


def main() -> None:
    figures = measure()
    for figure in figures:
        print(
            f"{figure.name:40} {figure.value:9.2f}   target {figure.target:g}{'   MISSED' if figure.is_missed else ''}"
        )
    print(json.dumps({figure.name: round(figure.value, 3) for figure in figures}))
    sys.exit(any(figure.is_missed for figure in figures))


if __name__ == "__main__":
    main()
