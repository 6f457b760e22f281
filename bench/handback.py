"""Whether the embedded model makes use of a side: fork, two questions, merge, and the parent is asked.

Run: `.venv/bin/python -m bench.handback`; prints a table, then the same as one line of JSON. Every seed is
another story with a fact that only the side's user states. `stays out`: before the merge the parent does not know
it. `note`: the note as the model drafted it holds the fact. `answer`: the parent answers with the fact once a note
that holds it was merged (the drafted one, or else the user's own).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Story:
    """What is talked about; `fact` is stated in the side, and `ask` is what the parent is asked after the merge."""

    topic: str
    told: str
    more: str
    ask: str
    fact: str

    @property
    def own_words(self) -> str:
        return f"Conclusion: {self.told}"


STORIES: Final = (
    Story("Name two things to do before a software release.", "The release code name is Heron.", "Is that a bird?",
          "What is the release code name?", "Heron"),
    Story("What does a web server do?", "The web server listens on port 8417.", "Is that port a usual one?",
          "On which port does the web server listen?", "8417"),
    Story("What is a database backup?", "The backup is stored in the city of Lisbon.", "In which country is that city?",
          "In which city is the backup stored?", "Lisbon"),
    Story("Why do people write unit tests?", "The slowest test takes 42 minutes.", "Is that a long time for a test?",
          "How many minutes does the slowest test take?", "42"),
    Story("What is a password manager?", "The person who keeps the keys is Marta.", "What is a good way to keep keys?",
          "Who keeps the keys?", "Marta"),
    Story("What is a log file?", "The error is in the file parser.py.", "What does a parser do?",
          "In which file is the error?", "parser.py"),
    Story("What is a meeting agenda?", "The meeting is on Thursday.", "What should I bring to a meeting?",
          "On which day is the meeting?", "Thursday"),
    Story("What is a cache in a computer?", "The cache holds 512 entries.", "Is a bigger cache always better?",
          "How many entries does the cache hold?", "512"),
    Story("What is a programming language?", "The new service is written in Rust.", "What is that language good for?",
          "In which language is the new service written?", "Rust"),
    Story("What is a project budget?", "The budget of the project is 9000 euros.", "Is that enough for a month?",
          "What is the budget of the project?", "9000"),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    seed: int
    fact: str
    stays_out: bool
    note: bool
    answer: bool
    said: str


async def run(seeds: int) -> list[Row]:
    """The stories, one after the other, on a runner of this process."""
    from sidechat_web.runtime import local_model, runner

    await runner.start()
    try:
        return [await tell(seed) for seed in range(seeds)]
    finally:
        await runner.stop()
        await local_model.stop()


async def tell(seed: int) -> Row:
    """One story, from the first question to the parent's answer."""
    from sidechat_web.accounts import local_user
    from sidechat_web.runtime import commands
    from sidechat_web.runtime.db import in_db
    from sidechat_web.runtime.sidechat import merge_back, side

    story = STORIES[seed]
    parent = await in_db(commands.create, await in_db(local_user))
    await ask(parent, story.topic)
    child = await in_db(side.open_side, parent)
    await ask(child, f"{story.told} Say it again in your own words.")
    await ask(child, story.more)
    before = await in_db(side.open_side, parent)  # the parent itself stays as it is
    stays_out = story.fact not in await ask(before, story.ask)
    await in_db(merge_back.handback, child)
    await settle(child)
    draft = await in_db(merge_back.drafted, child)
    drafted = story.fact in draft.text
    await in_db(merge_back.merge, child, text=None if drafted else story.own_words)
    said = await ask(parent, story.ask)
    return Row(seed, story.fact, stays_out, drafted, story.fact in said, said)


async def ask(session: Any, text: str) -> str:
    """What the model answers to `text` in `session`."""
    from sidechat_web.core import events as ev
    from sidechat_web.runtime import commands
    from sidechat_web.runtime.db import in_db
    from sidechat_web.storage import reading

    await in_db(commands.say, session, text)
    await settle(session)
    [answer] = await in_db(reading.tail, session, 1, types=[ev.ASSISTANT_MESSAGE])
    return ev.text_of(answer.data["message"])


async def settle(session: Any) -> None:
    """Wait until nothing runs or waits in `session`."""
    from sidechat_web.runtime import queue
    from sidechat_web.runtime.db import in_db

    def is_busy() -> bool:
        session.refresh_from_db()
        return session.open_turn is not None or queue.pending(session).exists()

    while await in_db(is_busy):
        await asyncio.sleep(0.05)


def table(rows: list[Row]) -> str:
    lines = [f"{'seed':>4} {'fact':10} {'stays out':>9} {'note':>5} {'answer':>7}  said"]
    for r in rows:
        said = " ".join(r.said.split())[:60]
        lines.append(f"{r.seed:4} {r.fact:10} {_yes(r.stays_out):>9} {_yes(r.note):>5} {_yes(r.answer):>7}  {said}")
    counts = [sum(column) for column in zip(*((r.stays_out, r.note, r.answer) for r in rows), strict=True)]
    lines.append(f"{'':15} {counts[0]:9} {counts[1]:5} {counts[2]:7}  of {len(rows)}")
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=len(STORIES), choices=range(1, len(STORIES) + 1))
    seeds = parser.parse_args().seeds
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sidechat_web.settings")
    with tempfile.TemporaryDirectory() as data_dir:
        os.environ["SIDECHAT_DATA_DIR"] = data_dir
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        rows = asyncio.run(run(seeds))
    print(table(rows))
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
