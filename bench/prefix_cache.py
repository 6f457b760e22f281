"""How much of an inherited prompt a fork re-uses from the embedded model's cache, and what that saves.

Run: `.venv/bin/python -m bench.prefix_cache`; prints a table, then the same as one line of JSON. Every
situation has a parent of its own, so none profits from another's cache. `inherited` is what the parent's
turn left in the cache: its prompt and answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

SYSTEM = "You are a careful assistant. Answer exactly what is asked, briefly and concretely."
FRAME = "From here on this is a side session. You are a read-only advisor to the work above: explain it, question it."
COLOURS = ("red", "blue", "green", "black", "white")


@dataclass(frozen=True)
class Answer:
    text: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    first_token_s: float


@dataclass(frozen=True)
class Row:
    situation: str
    inherited_tokens: int
    cached_tokens: int
    first_token_s: float

    @property
    def share(self) -> float:
        return self.cached_tokens / self.inherited_tokens


async def ask(
    messages: list[tuple[str, str]],
    *,
    system: str = SYSTEM,
    tokens: int = 24,
    begun: Callable[[], object] = lambda: None,
) -> Answer:
    """One request, on the path that the product takes; calls `begun` at every piece of text."""
    from sidechat_web.core import wire_openai
    from sidechat_web.runtime import local_model
    from sidechat_web.runtime.providers import wire
    from sidechat_web.runtime.providers.provider import LOCAL, Provider

    header = {"config": {"model": local_model.MODEL_ID, "maxTokens": tokens}, "system": system}
    history = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in messages]
    body = wire_openai.encode(wire_openai.body(header, history))
    embedded = Provider(LOCAL, "Embedded", None, "none", local_model.MODEL_ID)
    started, first, text, usage = time.perf_counter(), 0.0, [], {}
    async for chunk in wire.stream(embedded, body):
        if chunk["type"] == "text-delta":
            first = first or time.perf_counter() - started
            text.append(chunk["text"])
            begun()
        elif chunk["type"] == "usage":
            usage = chunk["usage"]
    cached = usage.get("cacheReadTokens", 0)
    return Answer("".join(text), usage["inputTokens"] + cached, cached, usage["outputTokens"], first)


async def measure() -> list[Row]:
    """The three situations: parent idle, parent streaming, system prompt changed."""
    return [await idle(), await streaming(), await changed_system()]


async def idle() -> Row:
    messages, inherited = await _parent(1)
    return _row("fork, parent idle", inherited, await ask(_fork(messages)))


async def streaming() -> Row:
    messages, inherited = await _parent(2)
    streams = asyncio.Event()
    more = ("user", "Tell a long story about item 5.")
    turn = asyncio.create_task(ask([*messages, more], tokens=400, begun=streams.set))
    await streams.wait()
    answer = await ask(_fork(messages))
    turn.cancel()
    with suppress(asyncio.CancelledError):
        await turn
    return _row("fork, parent streaming", inherited, answer)


async def changed_system() -> Row:
    messages, inherited = await _parent(3)
    answer = await ask(_fork(messages), system=SYSTEM.replace("careful", "thorough"))
    return _row("fork, one word of the system prompt changed", inherited, answer)


async def _parent(seed: int) -> tuple[list[tuple[str, str]], int]:
    """A conversation of one turn, and how many tokens it left in the cache."""
    question = ("user", _document(seed) + " Which of these items are red?")
    answer = await ask([question])
    return [question, ("assistant", answer.text)], answer.prompt_tokens + answer.output_tokens


def _fork(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*messages, ("user", FRAME), ("user", "What colour is item 3?")]


def _document(seed: int) -> str:
    lines = (f"Item {i}: {COLOURS[(i * seed) % 5]}, shelf {(i + seed) % 9}, weight {i * seed % 83}." for i in range(45))
    return f"List number {seed}. " + " ".join(lines)


def _row(situation: str, inherited: int, answer: Answer) -> Row:
    return Row(situation, inherited, answer.cached_tokens, answer.first_token_s)


def table(rows: list[Row]) -> str:
    lines = [f"{'situation':45} {'inherited':>9} {'cached':>7} {'share':>6} {'first token':>12}"]
    for r in rows:
        share = f"{min(r.share, 1):.0%}"
        lines.append(
            f"{r.situation:45} {r.inherited_tokens:9} {r.cached_tokens:7} {share:>6} {r.first_token_s:10.2f} s"
        )
    return "\n".join(lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sidechat_web.settings")
    with tempfile.TemporaryDirectory() as data_dir:
        os.environ["SIDECHAT_DATA_DIR"] = data_dir
        import django

        django.setup()
        rows = asyncio.run(_measure_and_stop())
    print(table(rows))
    print(json.dumps([asdict(r) | {"share": round(r.share, 3)} for r in rows]))


async def _measure_and_stop() -> list[Row]:
    from sidechat_web.runtime import local_model

    try:
        return await measure()
    finally:
        await local_model.stop()


if __name__ == "__main__":
    main()
