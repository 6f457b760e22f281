"""An open turn while its events are folded, and its figures when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import words
from .items import ToolCard, Turn


@dataclass(slots=True)
class OpenTurn:
    number: int
    started: int
    heading: Turn | None = None
    calls: dict[str, ToolCard] = field(default_factory=dict)
    asked_seq: int | None = None
    answer_seq: int | None = None
    last_usage: Mapping[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        return self.heading is not None and self.answer_seq is None and not self.calls

    def spend(self, usage: Mapping[str, int]) -> None:
        self.last_usage = usage
        for name, count in usage.items():
            self.sent[name] = self.sent.get(name, 0) + count

    def figures(self, ended: int) -> str:
        """`Turn 6 · 41 s · 12.4k tokens, 96 % cached`."""
        out = [f"Turn {self.number}", words.duration(ended - self.started)]
        if total := words.usage_total(self.last_usage):
            share = words.cached_share(self.sent)
            out.append(f"{words.tokens(total)} tokens" + (f", {share} % cached" if share is not None else ""))
        return " · ".join(out)

    def hint(self) -> str:
        if not self.sent:
            return ""
        cached = self.sent.get("cacheReadTokens", 0)
        fresh = self.sent.get("inputTokens", 0) + self.sent.get("cacheWriteTokens", 0)
        written = self.sent.get("outputTokens", 0)
        return f"{cached:,} tokens read from the cache, {fresh:,} new, {written:,} written"
