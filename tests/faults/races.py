"""Two things at the same moment, on the real server: each whole or refused with a reason, every note exactly once.

    python -m tests.faults.races --rounds 200 --seed 1 [--only merge-retract fork-delete] [--database URL]

Every round has a parent and a side of its own, and delays of its own from the seed. After each pair every log
passes the check. Ends with a table; status 1 on any fault.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.faults.product import Product, wait_for
from tests.scripted_provider import ScriptedProvider

REASONS: Final = {"turn_open", "nothing_new", "parent_gone", "side_gone", "not_on_surface", "handback_stopped",
                  "has_sides", "delivered", "not_a_side"}  # fmt: skip
_UNDER_WAY: Final = ("drafting", "pending")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to; status 0 where the server was gone."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"]) if self.status >= 400 else ""


Call = Callable[[], Answer]


class Scene:
    """One round: a parent that has talked, a side that was asked, and what went wrong."""

    def __init__(self, product: Product, seed: str) -> None:
        self.product, self.random, self.seed = product, random.Random(seed), seed
        self.faults: list[str] = []
        self.main = self.asked("POST", "/api/sessions", {"title": "Main"})["id"]
        self.say(self.main, "inherited words")
        product.wait_idle(self.main)
        self.side = self.asked("POST", f"/api/sessions/{self.main}/fork", {"text": "first question"})["id"]
        product.wait_idle(self.side)

    # --- calls ---

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        try:
            return Answer(*self.product.call(method, path, body, **headers))
        except OSError:
            return Answer(0, None)

    def asked(self, method: str, path: str, body: Any = None) -> Any:
        """The body of a call that must work."""
        answer = self.call(method, path, body)
        self.expect(answer.ok, f"{method} {path} answered {answer}")
        return answer.body

    def say(self, session: str, text: str, **more: str) -> Answer:
        return self.call("POST", f"/api/sessions/{session}/messages", {"text": text, **more})

    def merge(self, **body: Any) -> Answer:
        return self.call("POST", f"/api/sessions/{self.side}/merge", body)

    def get(self, session: str, part: str = "") -> Any:
        return self.asked("GET", f"/api/sessions/{session}{part}")

    def at_once(self, *calls: Call) -> list[Answer]:
        """The calls' answers in their order; each starts after a random moment."""
        delays = [self.random.uniform(0, self.random.choice([0.002, 0.03, 0.15])) for _ in calls]
        answers: list[Answer] = [Answer(-1, None)] * len(calls)

        def run(k: int) -> None:
            time.sleep(delays[k])
            answers[k] = calls[k]()

        threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for k, answer in enumerate(answers):
            known = answer.ok or answer.status == 404 or answer.code in REASONS
            self.expect(known, f"call {k} was neither done nor refused with a reason: {answer}")
        return answers

    # --- what must hold ---

    def expect(self, holds: object, otherwise: str) -> None:
        if not holds:
            self.faults.append(f"{self.seed}: {otherwise}")

    def settle(self, *sessions: str) -> None:
        """Wait until nothing runs, waits or is on its way."""
        ids = sessions or (self.main, self.side)
        self.product.wait_idle(*ids)
        wait_for(lambda: not [m for s in ids for m in self.get(s, "/merges") if m["state"] in _UNDER_WAY], 60,
                 lambda: f"{self.seed}: merges never settle: {[self.get(s, '/merges') for s in ids]}")  # fmt: skip
        self.product.wait_idle(*ids)

    def notes(self) -> list[dict[str, Any]]:
        return [e for e in self.product.events(self.main) if _form(e) == "handback"]

    def judge_notes(self, expected: int | None = None) -> None:
        """Every note of the parent belongs to one merge, stands between turns, and is seen unless it was retracted."""
        notes, merges = self.notes(), self.get(self.main, "/merges")
        standing = {m["seq"] for m in merges if m["state"] in ("delivered", "retracted")}
        self.expect(sorted(standing) == [n["seq"] for n in notes], f"notes {notes} for merges {merges}")
        self.expect(expected in (None, len(notes)), f"{len(notes)} notes, not {expected}: {merges}")
        live = Counter(str(n["data"]["source"]) + _text(n) for n in notes if self._state(merges, n) == "delivered")
        self.expect(max(live.values(), default=1) == 1, f"a note stands twice: {live}")
        seen = [m["id"] for m in self.get(self.main, "/messages")["messages"]]
        for note in notes:
            is_seen = note["data"]["id"] in seen
            self.expect(is_seen == (self._state(merges, note) == "delivered"), f"note {note['seq']} is seen: {is_seen}")
        open_turn = False
        for event in self.product.events(self.main):
            open_turn = event["type"] == "turn/start" or (open_turn and event["type"] != "turn/end")
            self.expect(not (open_turn and _form(event) == "handback"), f"note {event['seq']} stands inside a turn")

    def _state(self, merges: list[dict[str, Any]], note: dict[str, Any]) -> str:
        return next((str(m["state"]) for m in merges if m.get("seq") == note["seq"]), "")

    def goes_on(self, *sessions: str) -> None:
        """The sessions answer once more."""
        for session in sessions:
            self.expect(self.say(session, "and on").ok, f"{session} takes no message")
        self.product.wait_idle(*sessions)
        for session in sessions:
            reason = self.get(session)["lastTurn"]["reason"]
            self.expect(reason == {"kind": "completed"}, f"{session} does not go on: {reason}")


# --- the pairs ---


def merge_merge(scene: Scene) -> None:
    answers = scene.at_once(*(scene.merge for _ in range(4)))
    scene.settle()
    scene.expect(len({a.body["merge"] for a in answers if a.ok}) == 1, f"one click, several merges: {answers}")
    scene.judge_notes(1)


def merge_selected(scene: Scene) -> None:
    """A side alone, and the same side with another: one of them wins, or both where the side went first."""
    other = scene.asked("POST", f"/api/sessions/{scene.main}/fork", {"text": "other question"})["id"]
    scene.product.wait_idle(other)
    together = scene.at_once(
        scene.merge,
        lambda: scene.call("POST", f"/api/sessions/{scene.main}/merge", {"sides": [scene.side, other]}),
        lambda: scene.call("POST", f"/api/sessions/{other}/merge", {"sides": [scene.side]}),
    )
    scene.settle(scene.main, scene.side, other)
    covered = [s for n in scene.notes() for s in _sides(n)]
    scene.expect(len(covered) == len(set(covered)), f"a side was merged twice: {covered}, {together}")
    scene.expect(scene.side in covered, f"the side was not merged: {together}")
    scene.judge_notes(1)


def merge_retract(scene: Scene) -> None:
    first = scene.merge()
    scene.expect(first.status == 200, f"the first merge: {first}")
    if fresh := scene.random.random() < 0.5:
        scene.say(scene.side, "second question")
        scene.product.wait_idle(scene.side)
    retract = {"seq": first.body["seq"]}
    merged, retracted = scene.at_once(
        scene.merge, lambda: scene.call("POST", f"/api/sessions/{scene.main}/retract", retract)
    )
    scene.settle()
    scene.expect(merged.ok and retracted.ok, f"merge {merged}, retract {retracted}")
    again = fresh or merged.body["merge"] != first.body["merge"]
    scene.judge_notes(2 if again else 1)


def merge_delete_parent(scene: Scene) -> None:
    sides = scene.random.choice(["keep", "keep", "delete"])
    merged, deleted = scene.at_once(
        scene.merge, lambda: scene.call("DELETE", f"/api/sessions/{scene.main}?sides={sides}")
    )
    scene.expect(deleted.status == 200, f"delete answered {deleted}")
    scene.expect(scene.call("GET", f"/api/sessions/{scene.main}").status == 404, "the parent is still there")
    if sides == "delete":
        scene.expect(scene.call("GET", f"/api/sessions/{scene.side}").status == 404, "the side is still there")
        return
    scene.settle(scene.side)
    scene.expect("inherited words" in str(scene.get(scene.side, "/messages")), "the side lost its prefix")
    scene.expect(scene.merge().code == "parent_gone", f"a merge into nothing, after {merged}")
    scene.goes_on(scene.side)


def merge_archive(scene: Scene) -> None:
    target = scene.random.choice([scene.main, scene.side])
    merged, archived = scene.at_once(
        scene.merge, lambda: scene.call("PATCH", f"/api/sessions/{target}", {"archived": True})
    )
    scene.settle()
    scene.expect(merged.ok and archived.ok, f"merge {merged}, archive {archived}")
    scene.expect(scene.get(target)["archived"], "it is not archived")
    scene.judge_notes(1)


def merge_send(scene: Scene) -> None:
    pace = scene.random.choice(["", "[[every:5]]", "[[every:20]]"])
    text = f"{pace}[[say:{'word ' * 12}]] sent meanwhile"
    written = scene.random.choice([None, "My own words."])
    merged, sent = scene.at_once(lambda: scene.merge(text=written), lambda: scene.say(scene.main, text))
    scene.settle()
    scene.expect(merged.ok and sent.ok, f"merge {merged}, send {sent}")
    scene.judge_notes(1)
    said = [_text(e) for e in scene.product.events(scene.main) if e["type"] == "user/message"]
    scene.expect(said.count(text) == 1, f"the message is logged {said.count(text)} times")
    scene.goes_on(scene.main)
    last = scene.get(scene.main, f"/requests/{len(scene.get(scene.main, '/requests'))}")
    for note in scene.notes():
        scene.expect(_text(note).split("\n")[0] in last["body"], "the model does not see the note")


def merge_stop(scene: Scene) -> None:
    """Stop of the parent's turn, for whose end the note waits, or of the side's handback."""
    if stopped_side := scene.random.random() < 0.5:
        session = scene.side
    else:
        session = scene.main
        scene.say(scene.main, f"[[every:30]][[say:{'word ' * 30}]]")
    merged, _ = scene.at_once(scene.merge, lambda: scene.call("POST", f"/api/sessions/{session}/stop"))
    if not stopped_side:
        scene.call("POST", f"/api/sessions/{session}/stop")
    scene.settle()
    [row] = scene.get(scene.side, "/merges")
    fine = row["state"] == "delivered" or (stopped_side and row["error"]["code"] == "handback_stopped")
    scene.expect(fine, f"merge {merged} became {row}")
    scene.judge_notes(int(row["state"] == "delivered"))
    if row["state"] == "failed":
        scene.expect(scene.merge().ok, "it cannot be merged again")
        scene.settle()
        scene.judge_notes(1)


def merge_kill(scene: Scene) -> None:
    """The only pair that ends the server: rounds run one at a time."""
    if scene.random.random() < 0.5:
        scene.say(scene.main, f"[[every:20]][[say:{'word ' * 15}]]")
    thread = threading.Thread(target=scene.merge)
    thread.start()
    time.sleep(scene.random.uniform(0, scene.random.choice([0.05, 0.4])))
    scene.product.kill()
    thread.join()
    scene.product.start()
    scene.settle()
    states = [m["state"] for m in scene.get(scene.side, "/merges")]
    scene.expect(set(states) <= {"delivered"} and len(states) <= 1, f"merges after a kill: {states}")
    scene.judge_notes(len(states))
    scene.expect(scene.merge().status == 200, "it cannot be merged after a kill")
    scene.judge_notes(1)
    scene.goes_on(scene.main, scene.side)


def merge_promote(scene: Scene) -> None:
    merged, promoted = scene.at_once(scene.merge, lambda: scene.call("POST", f"/api/sessions/{scene.side}/promote"))
    scene.settle()
    scene.expect(merged.ok, f"merge {merged}")
    scene.expect(scene.get(scene.side)["promoted"] == promoted.ok, f"promote {promoted}")
    scene.judge_notes(1)
    scene.goes_on(scene.side)


def merge_second_tab(scene: Scene) -> None:
    """One tab merges at once; another reviews the draft, and merges it as it is or edited."""
    edited = scene.random.random() < 0.5

    def reviewed() -> Answer:
        draft = scene.call("POST", f"/api/sessions/{scene.side}/handback")
        return scene.merge(text=draft.body["text"] + (" Edited." if edited else "")) if draft.status == 200 else draft

    one, two = scene.at_once(scene.merge, reviewed)
    scene.settle()
    scene.expect(one.ok and two.ok, f"one tab {one}, the other {two}")
    scene.judge_notes(2 if edited else 1)


def fork_fork(scene: Scene) -> None:
    fork = f"/api/sessions/{scene.main}/fork"
    answers = scene.at_once(
        *(lambda: scene.call("POST", fork, {"text": "once"}, Idempotency_Key=scene.seed) for _ in range(4))
    )
    scene.expect(len({str(a) for a in answers}) == 1 and answers[0].ok, f"one key, several answers: {answers}")
    child = answers[0].body["id"]
    scene.product.wait_idle(child)
    said = [_text(e) for e in scene.product.events(child) if e["type"] == "user/message"]
    scene.expect(said.count("once") == 1, f"the first message is logged {said.count('once')} times")
    mine = [s["id"] for s in scene.asked("GET", "/api/sessions?limit=1000")["sessions"]
            if s.get("parentSession") == scene.main]  # fmt: skip
    scene.expect(sorted(mine) == sorted([scene.side, child]), f"children: {mine}")


def fork_compaction(scene: Scene) -> None:
    for n in range(5):
        scene.say(scene.main, f"question {n}")
    scene.product.wait_idle(scene.main)
    before = scene.get(scene.main, "/messages")["messages"]
    fork = f"/api/sessions/{scene.main}/fork"
    _, forked = scene.at_once(
        lambda: scene.call("POST", f"/api/sessions/{scene.main}/compact"),
        lambda: scene.call("POST", fork, {"text": "which one?"}),
    )
    wait_for(lambda: _ended(scene.product.events(scene.main)), 60, lambda: f"{scene.seed}: the compaction never ends")
    after = scene.get(scene.main, "/messages")["messages"]
    child = forked.body["id"]
    scene.product.wait_idle(child)
    seen = scene.get(child, "/messages")["messages"]
    scene.expect(any(seen[: len(view)] == view for view in (before, after)), "the child inherits half a compaction")
    scene.expect(len(after) < len(before), "nothing was compacted")
    scene.goes_on(child, scene.main)


def fork_delete(scene: Scene) -> None:
    """Of the parent, or of the side while a side of it is opened."""
    target = scene.random.choice([scene.main, scene.side])
    sides = scene.random.choice(["?sides=keep", ""])
    forked, deleted = scene.at_once(
        lambda: scene.call("POST", f"/api/sessions/{target}/fork", {"text": "late?"}),
        lambda: scene.call("DELETE", f"/api/sessions/{target}{sides}"),
    )
    scene.expect(forked.ok or forked.status == 404, f"fork {forked}")
    scene.expect(deleted.ok or (deleted.code == "has_sides" and not sides), f"delete {deleted}")
    if forked.ok:
        child = forked.body["id"]
        scene.product.wait_idle(child)
        events = scene.product.events(child)
        scene.expect("inherited words" in str(events), "the child lost its prefix")
        scene.goes_on(child)


PAIRS: Final[dict[str, Callable[[Scene], None]]] = {
    "merge-merge": merge_merge,
    "merge-selected": merge_selected,
    "merge-retract": merge_retract,
    "merge-delete-parent": merge_delete_parent,
    "merge-archive": merge_archive,
    "merge-send": merge_send,
    "merge-stop": merge_stop,
    "merge-promote": merge_promote,
    "merge-second-tab": merge_second_tab,
    "fork-fork": fork_fork,
    "fork-compaction": fork_compaction,
    "fork-delete": fork_delete,
    "merge-kill": merge_kill,
}


def _form(event: dict[str, Any]) -> str:
    return str(event["data"]["source"].get("form", "")) if event["type"] == "context/message" else ""


def _text(event: dict[str, Any]) -> str:
    return str(event["data"]["content"][0]["text"])


def _sides(note: dict[str, Any]) -> list[str]:
    source = note["data"]["source"]
    return [one["session"] for one in source.get("sessions") or [source]]


def _ended(events: list[dict[str, Any]]) -> bool:
    return any(e["type"] == "compaction/end" for e in events)


# --- the run ---


def play(product: Product, pair: str, seed: str) -> list[str]:
    """The faults of one round."""
    try:
        scene = Scene(product, f"{pair} {seed}")
        PAIRS[pair](scene)
        return scene.faults
    except Exception as e:
        return [f"{pair} {seed}: {type(e).__name__}: {e}"]


def run(rounds: int, seed: int, pairs: Sequence[str] = (), *, at_once: int = 3, **environment: str) -> list[str]:
    """The faults that `rounds` of each pair show, `at_once` of them side by side."""
    faults: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedProvider() as provider,
        Product(Path(folder), provider.base_url, **environment) as product,
    ):
        provider.handback = "[[every:8]]Conclusion: it is safe, as turn 2 says."
        for pair in pairs or PAIRS:
            with ThreadPoolExecutor(1 if pair == "merge-kill" else at_once) as pool:
                found = list(pool.map(lambda n, pair=pair: play(product, pair, f"{seed}-{n}"), range(rounds)))
            checked = product.manage("check_logs")
            broken = [f"{pair}: {checked.stdout}{checked.stderr}"] if checked.returncode else []
            faults += [fault for one in found for fault in one] + broken
            bad = sum(bool(one) for one in found)
            print(f"{pair:20} {rounds:4} rounds, {bad} with faults, logs {'broken' if broken else 'valid'}", flush=True)
        if "Traceback" in product.log():
            faults.append(f"the server logged an exception:\n{product.log()[-3000:]}")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], choices=list(PAIRS))
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--database", default="", help="an empty PostgreSQL database instead of SQLite")
    options = parser.parse_args()
    environment = {"DATABASE_URL": options.database} if options.database else {}
    faults = run(options.rounds, options.seed, options.only, at_once=options.at_once, **environment)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
