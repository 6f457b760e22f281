"""Figures of this process in Prometheus' text format. Labels are codes and configured names, never what users wrote."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from .facts import Fact

Labels = tuple[tuple[str, str], ...]
SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
MOST_SERIES: Final = 1000
_TOKENS: Final = {
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadTokens": "cache_read",
    "reasoningTokens": "reasoning",
}
_lock = threading.Lock()


class Counter:
    """A sum for each set of labels."""

    kind = "counter"

    def __init__(self, name: str, said: str) -> None:
        self.name, self.said = name, said
        self._sums: dict[Labels, float] = {}
        _figures.append(self)

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        with _lock:
            if key in self._sums or len(self._sums) < MOST_SERIES:
                self._sums[key] = self._sums.get(key, 0) + amount

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        with _lock:
            sums = sorted(self._sums.items())
        for labels, value in sums:
            yield self.name, labels, value


class Histogram:
    """How long something took, in seconds."""

    kind = "histogram"

    def __init__(self, name: str, said: str) -> None:
        self.name, self.said = name, said
        self._counts, self._sum = [0] * (len(SECONDS) + 1), 0.0
        _figures.append(self)

    def observe(self, seconds: float) -> None:
        with _lock:
            self._counts[bisect_left(SECONDS, seconds)] += 1
            self._sum += seconds

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        with _lock:
            counts, total = list(accumulate(self._counts)), self._sum
        for limit, count in zip((*map(str, SECONDS), "+Inf"), counts, strict=True):
            yield f"{self.name}_bucket", (("le", limit),), count
        yield f"{self.name}_sum", (), total
        yield f"{self.name}_count", (), counts[-1]


class Gauge:
    """What `read` says at the time of asking."""

    kind = "gauge"

    def __init__(self, name: str, said: str, read: Callable[[], float]) -> None:
        self.name, self.said, self._read = name, said, read
        _figures.append(self)

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        yield self.name, (), self._read()


_figures: list[Counter | Histogram | Gauge] = []

turns = Counter("sidechat_turns_total", "Turns that ended, by reason.")
turn_seconds = Histogram("sidechat_turn_seconds", "How long turns took.")
requests = Counter("sidechat_requests_total", "Requests to providers, by provider and outcome.")
request_seconds = Histogram("sidechat_request_seconds", "How long answered requests took.")
tokens = Counter("sidechat_tokens_total", "Tokens of answered requests, by kind.")
tools = Counter("sidechat_tool_calls_total", "Tool calls, by outcome.")
http = Counter("sidechat_http_responses_total", "HTTP responses, by class of status.")


def count(fact: Fact) -> None:
    match fact.kind:
        case "turn ended":
            turns.add(reason=fact.details["reason"])
            _observe(turn_seconds, fact)
        case "request answered":
            requests.add(provider=fact.details["provider"], outcome="answered")
            _observe(request_seconds, fact)
            for name, kind in _TOKENS.items():
                if amount := fact.details.get(name):
                    tokens.add(amount, kind=kind)
        case "request failed":
            requests.add(provider=fact.details["provider"], outcome="failed")
        case "tool ran":
            tools.add(outcome="error" if fact.details["error"] else "ok")


def exposition() -> str:
    """All figures as Prometheus reads them."""
    return "\n".join(line for figure in _figures for line in _lines(figure)) + "\n"


def _observe(histogram: Histogram, fact: Fact) -> None:
    if fact.ms is not None:
        histogram.observe(fact.ms / 1000)


def _lines(figure: Counter | Histogram | Gauge) -> Iterable[str]:
    yield f"# HELP {figure.name} {figure.said}"
    yield f"# TYPE {figure.name} {figure.kind}"
    for name, labels, value in figure.samples():
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def _escaped(text: str) -> str:
    return text[:100].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
