"""Malformed session files against the import: no error but a refusal, no partial import, bounded memory.

    python -m tests.faults.malformed --files 10000 --seed 1

Mutations of the small logs and of other agents' files (bytes, lines, JSON values, frames) go through
`POST /api/import`. Every answer must be 201 or 422 with a code, line and reason; what is refused leaves
nothing, what is accepted passes the check and leaves and comes back the same. Status 1 on any fault.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

LOGS = Path(__file__).parents[1] / "formats/logs"
MAX_GROWTH_MB = 200
CODES = {"log_unsupported", "log_corrupt", "log_unreadable", "log_conflict"}
INTERESTING = [
    b"",
    b"\n",
    b"\0",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b'"',
    b"\\",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"-0",
    b"1e999",
]
VALUES: list[Any] = [None, True, -1, 0, 2**53, 10**30, 1.5, "", "x", "\ud800", "\0", [], {}, [None], {"kind": None}]


def seeds() -> list[bytes]:
    """What is mutated: every small log, plain and compressed, and files of other agents."""
    from tests.formats import agents

    logs = [path.read_bytes() for path in sorted(LOGS.iterdir()) if path.suffix != ".json"]
    packed = [frames(log) for log in logs if log.startswith(b"{")]
    return [*filter(None, logs), *packed, agents.claude().bytes(), agents.codex().bytes(), agents.chat()] + [
        agents.claude().bytes(),
        agents.codex().bytes(),
    ] * 8


def frames(log: bytes) -> bytes:
    """The log as the harness compresses it: the header, then batches of three lines."""
    lines = log.splitlines(keepends=True)
    batches = [lines[:1], *(lines[i : i + 3] for i in range(1, len(lines), 3))]
    return b"".join(zstandard.ZstdCompressor(write_checksum=True).compress(b"".join(batch)) for batch in batches)


# -- mutations -----------------------------------------------------------------------------------


def flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3, 20])):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def splice(data: bytes, rng: random.Random) -> bytes:
    at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    insert = rng.choice([rng.choice(INTERESTING), data[at:to], rng.randbytes(rng.randrange(40))])
    return data[:at] + insert + data[rng.choice([at, to]) :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def lines(data: bytes, rng: random.Random) -> bytes:
    """Lines removed, repeated, exchanged or joined."""
    parts = data.split(b"\n")
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    match rng.randrange(4):
        case 0:
            del parts[i]
        case 1:
            parts.insert(j, parts[i])
        case 2:
            parts[i], parts[j] = parts[j], parts[i]
        case _:
            parts[i : i + 2] = [b"".join(parts[i : i + 2])]
    return b"\n".join(parts)


def value(data: bytes, rng: random.Random) -> bytes:
    """One JSON value of one line is another, is missing, or is very deep."""
    parts = data.split(b"\n")
    i = rng.randrange(len(parts))
    try:
        record = json.loads(parts[i])
    except ValueError:
        return flip(data, rng)
    places = list(_places(record))
    if places:
        holder, key = rng.choice(places)
        if rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = rng.choice([*VALUES, _deep(rng.choice([10, 300, 5000]))])
    try:
        parts[i] = json.dumps(record).encode()
    except RecursionError:
        parts[i] = b'{"type":"x","data":' + b"[" * 5000 + b"]" * 5000 + b"}"
    return b"\n".join(parts)


def bomb(data: bytes, rng: random.Random) -> bytes:
    """A frame of very much nothing after the log, or in its place."""
    filling = zstandard.ZstdCompressor(level=1).compress(
        rng.choice([b"\0", b" ", b"[", b"\n"]) * rng.choice([1 << 20, 1 << 27])
    )
    return rng.choice([b"", frames(data) if data.startswith(b"{") else data]) + filling


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [flip, splice, cut, lines, value]


def mutated(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.002:
        return bomb(data, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = rng.choice(MUTATIONS)(data, rng) if data else data
    return frames(data) if data.startswith(b"{") and rng.random() < 0.15 else data


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _deep(depth: int) -> Any:
    out: Any = 0
    for _ in range(min(depth, 400)):
        out = [out]
    return out


# -- the run -------------------------------------------------------------------------------------


class Run:
    """Posts files as one user and holds every answer to what must be."""

    def __init__(self, token: str) -> None:
        from django.test import Client

        self.client = Client(headers={"authorization": f"Bearer {token}"}, raise_request_exception=False)
        self.answers: Counter[str] = Counter()
        self.faults: list[str] = []

    def post(self, name: str, data: bytes) -> None:
        before = _rows()
        answer = self.client.post("/api/import", data, content_type="application/octet-stream")
        body = json.loads(answer.content)
        code = body["error"]["code"] if "error" in body else "accepted"
        self.answers[code] += 1
        if answer.status_code == 201:
            self._accepted(name, body["sessions"])
        elif answer.status_code != 422 or code not in CODES or not body["error"]["message"]:
            self.faults.append(f"{name}: {answer.status_code} {body}")
        elif _rows() != before:
            self.faults.append(f"{name}: refused with {code}, and yet something was stored")

    def _accepted(self, name: str, found: list[dict[str, Any]]) -> None:
        from sidechat_web.formats.checking import faults
        from sidechat_web.formats.exporting import export_dsh
        from sidechat_web.runtime import commands
        from sidechat_web.storage.models import Session

        for one in found:
            session = Session.objects.get(pk=one["id"])
            self.faults += [f"{name}: {fault}" for fault in faults(session)]
            data = b"".join(export_dsh(session))
            again = self.client.post("/api/import", data, content_type="application/octet-stream")
            if again.status_code != 201 or again.json()["sessions"][0]["id"] != one["id"]:
                self.faults.append(f"{name}: what leaves does not come back: {again.content[:300]!r}")
            for part in ("messages", "events?limit=1000", "export?format=markdown", "export?format=openai"):
                if self.client.get(f"/api/sessions/{one['id']}/{part}").status_code != 200:
                    self.faults.append(f"{name}: {part} cannot be read")
            commands.delete(session, "delete")


def _rows() -> tuple[int, int]:
    from sidechat_web.storage.models import Event, Session

    return Session.objects.count(), Event.objects.count()


def run(files: int, seed: int, *, show: Callable[[str], None] = lambda line: None) -> list[str]:
    """The faults that `files` files show, in a database that is set up."""
    from django.contrib.auth.models import User

    from sidechat_web.accounts import tokens

    owner, _ = User.objects.get_or_create(username="malformed")
    run = Run(tokens.issue(owner, "malformed"))
    rng, sources = random.Random(seed), seeds()
    run.post("warm-up", sources[0])
    started, memory = time.monotonic(), _memory_mb()
    for n in range(files):
        run.post(f"file {n} (seed {seed})", mutated(rng.choice(sources), rng))
        if n and n % 1000 == 0:
            show(f"{n} files, {time.monotonic() - started:.0f} s, {_memory_mb()} MB")
    grown = _memory_mb() - memory
    if grown > MAX_GROWTH_MB:
        run.faults.append(f"memory grew by {grown} MB")
    show(f"{files} files, seed {seed}: {dict(run.answers)}; memory grew by {grown} MB; {len(run.faults)} faults")
    return run.faults


def _memory_mb() -> int:
    """The most that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _set_up(folder)
        faults = run(options.files, options.seed, show=print)
    print("\n".join(faults))
    sys.exit(bool(faults))


def _set_up(folder: str) -> None:
    """An empty database of the product's own in `folder`."""
    import os

    os.environ.update(
        SIDECHAT_DATA_DIR=folder, SIDECHAT_LOCAL_MODEL="off", DJANGO_SETTINGS_MODULE="sidechat_web.settings"
    )
    import django
    from django.conf import settings
    from django.core.management import call_command

    django.setup()
    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)


if __name__ == "__main__":
    main()
