"""`kill -9` of the server at random moments during a turn of main, a turn of a side and a merge.

    python -m tests.faults.kill --kills 20 --seed 1

After every restart: no accepted message is missing or doubled, no note is doubled, every log passes the check,
and both sessions go on. Ends with a table; status 1 on any fault.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider


class Story:
    """One main session and its side, and what the server accepted for them."""

    def __init__(self, product: Product, seed: int) -> None:
        self.product, self.random = product, random.Random(seed)
        self.accepted: dict[str, list[str]] = {}
        self.faults: list[str] = []
        _, main = product.call("POST", "/api/sessions", {})
        self.main: str = main["id"]
        self.say(self.main, "first")
        product.wait_idle(self.main)
        _, side = product.call("POST", f"/api/sessions/{self.main}/fork", {"side": True, "text": "side first"})
        self.side: str = side["id"]
        self.accepted[self.side] = ["side first"]
        product.wait_idle(self.side)

    def say(self, session: str, text: str) -> None:
        try:
            status, _ = self.product.call("POST", f"/api/sessions/{session}/messages", {"text": text}, timeout=5)
        except OSError:
            return
        if status == 202:
            self.accepted.setdefault(session, []).append(text)

    def round(self, n: int) -> None:
        """Everything at once, a kill somewhere in it, a restart, and the checks."""
        pace = f"[[every:{self.random.choice([5, 20, 40])}]]"
        work = [
            threading.Thread(target=self.say, args=(self.main, f"{pace} main {n} " + "word " * 10)),
            threading.Thread(target=self.say, args=(self.side, f"{pace} side {n} " + "word " * 5)),
            threading.Thread(target=self._merge),
            threading.Thread(target=self._merge),
        ]
        self.random.shuffle(work)
        for one in work:
            one.start()
            time.sleep(self.random.uniform(0, 0.25))
        time.sleep(self.random.uniform(0, 0.6))
        self.product.kill()
        for one in work:
            one.join()
        self.product.start()
        self.product.wait_idle(self.main, self.side)
        self._merges_settle()
        self._check(n)

    def finish(self) -> None:
        for session in (self.main, self.side):
            self.say(session, "and on")
            self.product.wait_idle(session)
            reason = self.product.call("GET", f"/api/sessions/{session}")[1]["lastTurn"]["reason"]
            if reason != {"kind": "completed"}:
                self.faults.append(f"{session} does not go on: {reason}")

    def _merge(self) -> None:
        with contextlib.suppress(OSError):
            self.product.call("POST", f"/api/sessions/{self.side}/merge", {}, timeout=5)

    def _merges_settle(self) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            _, merges = self.product.call("GET", f"/api/sessions/{self.side}/merges")
            if not [m for m in merges if m["state"] in ("drafting", "pending")]:
                return
            time.sleep(0.1)
        self.faults.append(f"merges never settle: {merges}")

    def _check(self, n: int) -> None:
        for session, texts in self.accepted.items():
            logged = Counter(_said(self.product.events(session)))
            for text in texts:
                if logged[text] != 1:
                    self.faults.append(f"round {n}: {text!r} is logged {logged[text]} times in {session}")
        through = Counter(e["data"]["source"]["throughSeq"] for e in self.product.events(self.main) if _is_note(e))
        self.faults += [f"round {n}: the note through {seq} is there {k} times" for seq, k in through.items() if k > 1]
        found = self.product.manage("check_logs")
        if found.returncode:
            self.faults.append(f"round {n}: {found.stdout}{found.stderr}")


def _said(events: list[dict[str, Any]]) -> list[str]:
    return [e["data"]["content"][0]["text"] for e in events if e["type"] == "user/message"]


def _is_note(event: dict[str, Any]) -> bool:
    return event["type"] == "context/message" and event["data"]["source"].get("form") == "handback"


def run(kills: int, seed: int) -> list[str]:
    """The faults that `kills` rounds show."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedProvider() as provider,
        Product(Path(folder), provider.base_url) as product,
    ):
        story = Story(product, seed)
        for n in range(kills):
            story.round(n)
        story.finish()
        notes = sum(_is_note(e) for e in product.events(story.main))
    sent = sum(map(len, story.accepted.values()))
    print(f"kills {kills}, seed {seed}: {sent} messages accepted, {notes} notes, {len(story.faults)} faults")
    return story.faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = run(options.kills, options.seed)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
