"""Queued and steered messages over many sessions, with Stop and `kill -9` of the server at random moments.

    python -m tests.faults.queueing --sessions 20 --messages 1000 --kills 10 --seed 1

One sender a session sends its messages one after the other, each with a key, again until it is accepted. Afterwards
each message is logged once, in its own session, the queued ones in their order and the steered ones in theirs; every
log passes the check and every session goes on. Status 1 on any fault.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider

MODES = ("queue", "steer")


class Sender(threading.Thread):
    """Sends one session's messages, and stops its turns now and then."""

    def __init__(self, product: Product, session: str, messages: int, seed: str) -> None:
        super().__init__(daemon=True)
        self.product, self.session, self.random = product, session, random.Random(seed)
        self.sent: dict[str, list[str]] = {mode: [] for mode in MODES}
        self.stops = 0
        self._plan = [self._message(n) for n in range(messages)]

    def run(self) -> None:
        for mode, text in self._plan:
            self.accept(mode, text)
            self.sent[mode].append(text)
            if self.random.random() < 0.1:
                self._stop()
            time.sleep(self.random.uniform(0, 0.3))

    def accept(self, mode: str, text: str) -> None:
        """Send until the server says that it has the message."""
        path, body = f"/api/sessions/{self.session}/messages", {"text": text, "mode": mode}
        while True:
            with contextlib.suppress(OSError, ValueError):
                status, answer = self.product.call("POST", path, body, timeout=10, Idempotency_Key=text)
                if status == 202:
                    return
                if status < 500 and status != 409:
                    raise AssertionError(f"{status} {answer}")
            time.sleep(0.1)

    def faults(self) -> list[str]:
        logged = said(self.product.events(self.session))
        found = []
        for mode, texts in self.sent.items():
            if (ran := [text for text in logged if f" {mode} " in text]) != texts:
                found.append(f"{self.session}: {mode}d {len(texts)} messages, ran {len(ran)}: {_first(texts, ran)}")
        if others := [text for text in logged if not text.startswith(self.session)]:
            found.append(f"{self.session}: ran what was sent elsewhere: {others[0]}")
        return found

    def _message(self, n: int) -> tuple[str, str]:
        mode = self.random.choice(MODES)
        script = f"[[every:{self.random.choice([1, 5, 20])}]]" + "[[call:nothing {}]]" * self.random.randrange(3)
        return mode, f"{self.session} {mode} {n} {script}"

    def _stop(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.product.call("POST", f"/api/sessions/{self.session}/stop", timeout=5)
            self.stops += 1


def said(events: list[dict[str, Any]]) -> list[str]:
    return [e["data"]["content"][0]["text"] for e in events if e["type"] == "user/message"]


def _first(texts: list[str], ran: list[str]) -> str:
    """Where the two part."""
    k = next((k for k, (a, b) in enumerate(zip(texts, ran, strict=False)) if a != b), min(len(texts), len(ran)))
    return f"{texts[k : k + 1]} was due, {ran[k : k + 1]} came"


def run(sessions: int, messages: int, kills: int, seed: int) -> list[str]:
    """The faults that the run shows; prints what was done."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedProvider() as provider,
        Product(Path(folder), provider.base_url) as product,
    ):
        ids = [product.call("POST", "/api/sessions", {})[1]["id"] for _ in range(sessions)]
        senders = [Sender(product, pk, messages // sessions, f"{seed}-{n}") for n, pk in enumerate(ids)]
        for sender in senders:
            sender.start()
        for _ in range(kills):
            time.sleep(rng.uniform(0.3, 2))
            product.kill()
            product.start()
        for sender in senders:
            sender.join()
        product.wait_idle(*ids, seconds=300)
        for sender in senders:
            sender.accept("queue", text := f"{sender.session} queue last")
            sender.sent["queue"].append(text)
        product.wait_idle(*ids)
        faults = [fault for sender in senders for fault in sender.faults()]
        faults += [f"{pk} does not go on: {reason}" for pk in ids if (reason := _last(product, pk)) != "completed"]
        found = product.manage("check_logs")
        faults += [found.stdout + found.stderr] if found.returncode else []
    counts = {mode: sum(len(sender.sent[mode]) for sender in senders) for mode in MODES}
    stops = sum(sender.stops for sender in senders)
    print(f"{sessions} sessions, seed {seed}: {counts}, {stops} stops, {kills} kills, {len(faults)} faults")
    return faults


def _last(product: Product, session: str) -> str:
    return str(product.call("GET", f"/api/sessions/{session}")[1]["lastTurn"]["reason"]["kind"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = run(options.sessions, options.messages, options.kills, options.seed)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
