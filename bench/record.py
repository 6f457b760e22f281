"""What import, first page, derive, fork and append cost at different lengths of a log.

    python -m bench.record [--sizes 1000,10000,100000] [--runs 7] [--database URL] [--json FILE]

Prints the figures as JSON and a table of medians with the ratio to the smallest size. Fork, append and the
first page must stay flat; import and the first derivation read the whole log, and a request is as long as
its history. Uses a database of its own: SQLite in a temporary directory, or the empty PostgreSQL database
that `--database` names.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

MODEL = {"kind": "model", "provider": "acme", "model": "small"}
T0 = 1_780_000_000_000
FLAT = 1.5
EVENTS_A_MESSAGE = 23 / 4


def log(name: str, events: int) -> Iterator[bytes]:
    """The lines of a log of about `events` events: turns of a question, a streamed answer with a call, an answer."""
    yield _line({"type": "session", "version": 0, "id": name, "createdAt": T0, "delegationDepth": 0})
    seq, turn = 0, 0
    while seq < events:
        turn += 1
        for record, length in _turn(turn):
            place = {"seq0": seq, "time0": T0 + seq} if "dt" in record["data"] else {"seq": seq, "time": T0 + seq}
            yield _line({"type": record.pop("type"), **place, **record})
            seq += length


def _turn(turn: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Records without their place, each with the number of events that it stands for."""
    at = {"turn": turn, "step": 1}
    call = {"type": "tool-call", "id": f"c{turn}", "name": "read_file", "arguments": '{"path": "README.md"}'}
    yield {"type": "turn/start", "data": {"turn": turn}}, 1
    yield {"type": "step/start", "data": at}, 1
    yield _said("user/message", f"Question {turn}: what does this part do, and why is it there?", f"u{turn}"), 1
    if turn == 1:
        header = {"config": {"provider": "acme", "model": "small"}, "system": "You are a careful assistant."}
        yield {"type": "request/header", "data": {"header": header, "reason": "initial"}}, 1
    words = ["It reads "] * 12
    yield {"type": "text-chunks", "data": {**at, "index": 0, "dt": [30] * 11, "texts": words}}, 12
    yield _answer(at, [{"type": "text", "text": "".join(words)}, call], f"a{turn}-1"), 1
    yield {"type": "tool/call", "data": {**at, "callId": call["id"], "name": "read_file", "arguments": "{}"}}, 1
    yield _result(at, call["id"], "A line of the file that was read. " * 8), 1
    yield {"type": "step/end", "data": at}, 1
    yield {"type": "step/start", "data": {"turn": turn, "step": 2}}, 1
    yield _answer({"turn": turn, "step": 2}, [{"type": "text", "text": "It explains the part. " * 10}], f"a{turn}-2"), 1
    yield {"type": "step/end", "data": {"turn": turn, "step": 2}}, 1
    yield {"type": "turn/end", "data": {"turn": turn, "reason": {"kind": "completed"}}}, 1


def _said(kind: str, text: str, message_id: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    data = {"content": content, "source": {"kind": "user"}, "role": "user", "id": message_id}
    return {"type": kind, "data": data, "surfaceOp": "append"}


def _answer(at: dict[str, int], content: list[Any], message_id: str) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "content": content, "source": MODEL}
    usage = {"inputTokens": 20, "outputTokens": 30, "cacheReadTokens": 900}
    return {"type": "assistant/message", "data": {**at, "message": message, "usage": usage}, "surfaceOp": "append"}


def _result(at: dict[str, int], call_id: str, text: str) -> dict[str, Any]:
    block = {"type": "tool-result", "toolCallId": call_id, "content": [{"type": "text", "text": text}]}
    source = {"kind": "tool", "callId": call_id}
    message = {"id": f"r-{call_id}", "role": "user", "source": source, "content": [block]}
    return {"type": "tool/result", "data": {**at, "message": message}, "surfaceOp": "append"}


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


class Bench:
    """One database with a log of each size."""

    def __init__(self, sizes: list[int], runs: int) -> None:
        from django.contrib.auth.models import User

        self.sizes, self.runs = sizes, runs
        self.owner = User.objects.create(username="bench")
        self.figures: dict[str, dict[int, dict[str, float]]] = {}
        self.sessions: dict[int, Any] = {}

    def run(self) -> None:
        from sidechat_web.core import events as ev
        from sidechat_web.formats.importing import import_logs
        from sidechat_web.pages import panes
        from sidechat_web.runtime import commands, requests
        from sidechat_web.runtime.sidechat import side
        from sidechat_web.storage import log as writer
        from sidechat_web.storage import reading, surfaces

        for size in self.sizes:
            data = b"".join(log(f"bench-{size}", size))
            [self.sessions[size]] = self.once("import", size, lambda d=data: import_logs(self.owner, _file(d)))
            self.once("import again", size, lambda d=data: import_logs(self.owner, _file(d)))
        note = ev.context_message("note", "A note.", {"kind": "plugin", "plugin": "bench"})
        self.each("last 50 events", lambda s: reading.tail(s, 50))
        self.each("first page", lambda s: panes.pane(s))
        self.each("derive from rows", lambda s: reading.surface(s).messages(), before=lambda s: surfaces.forget())
        self.each("derive", lambda s: reading.surface(s).messages())
        self.each("fork", lambda s: commands.fork(s))
        self.each("side", lambda s: side.open_side(s))
        self.each("append", lambda s: writer.append(s.pk, [note]))
        self.each(
            "request after an append",
            lambda s: requests.encode(s, reading.surface(s)),
            before=lambda s: writer.append(s.pk, [note]),
        )

    def once(self, name: str, size: int, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        out = work()
        self._note(name, size, [time.perf_counter() - started])
        return out

    def each(self, name: str, work: Callable[[Any], Any], before: Callable[[Any], Any] = lambda s: None) -> None:
        """Time `work` on every session, interleaved; the first round warms up and does not count."""
        taken: dict[int, list[float]] = {size: [] for size in self.sizes}
        for n in range(self.runs + 1):
            for size, session in self.sessions.items():
                before(session)
                session.refresh_from_db()
                started = time.perf_counter()
                work(session)
                if n:
                    taken[size].append(time.perf_counter() - started)
        for size, times in taken.items():
            self._note(name, size, times)

    def _note(self, name: str, size: int, times: list[float]) -> None:
        figure = {"ms": statistics.median(times) * 1000, "min": min(times) * 1000, "max": max(times) * 1000}
        self.figures.setdefault(name, {})[size] = figure

    def table(self) -> str:
        heads = "".join(f"{f'{size:,}':>12}" for size in self.sizes)
        rows = [f"{'ms, median':<26}{heads}   ratio"]
        for name, figures in self.figures.items():
            cells = "".join(f"{figures[size]['ms']:>12.2f}" for size in self.sizes)
            rows.append(f"{name:<26}{cells}{self.ratio(name):>8.2f}")
        return "\n".join(rows)

    def ratio(self, name: str) -> float:
        figures = self.figures[name]
        return figures[self.sizes[-1]]["ms"] / figures[self.sizes[0]]["ms"]


def _file(data: bytes) -> list[tuple[str, io.BytesIO]]:
    return [("bench.jsonl", io.BytesIO(data))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[1000, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--database", help="postgresql://USER@HOST:PORT/NAME (default: SQLite)")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _set_up(folder, options.database)
        bench = Bench(options.sizes, options.runs)
        bench.run()
    figures = {name: {str(size): f for size, f in sizes.items()} for name, sizes in bench.figures.items()}
    if options.json:
        with open(options.json, "w") as out:
            json.dump(figures, out, indent=2)
    print(json.dumps(figures))
    print(bench.table())
    steep = [name for name in ("fork", "side", "append", "first page") if bench.ratio(name) > FLAT]
    print(f"Not flat: {', '.join(steep)}" if steep else f"Fork, side, append and first page are flat (≤ {FLAT} ×).")
    sys.exit(bool(steep))


def _set_up(folder: str, database: str | None) -> None:
    os.environ.update(
        SIDECHAT_DATA_DIR=folder, SIDECHAT_LOCAL_MODEL="off", DJANGO_SETTINGS_MODULE="sidechat_web.settings"
    )
    os.environ.pop("DATABASE_URL", None)
    if database:
        os.environ["DATABASE_URL"] = database
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


if __name__ == "__main__":
    main()
