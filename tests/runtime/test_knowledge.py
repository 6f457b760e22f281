"""What the page says that a side knows: true in every kind of fork."""

import io
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.formats.importing import import_logs
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import side
from sidechat_web.storage import log
from sidechat_web.storage.models import Session
from tests.conftest import idle

from .side_story import (
    asked,
    asked_in,
    compact,
    delete,
    knows,
    merge,
    open_side,
    rows,
    say,
    settled,
    talked,
    until_open,
)

would_know = sync_to_async(side.would_know)
first_cached_share = sync_to_async(side.first_cached_share)
sides_from = sync_to_async(side.sides_from)


def part(known, *names):
    return tuple(known[name] for name in names)


async def first_answer(session):
    return next(e.seq for e in await rows(session) if e.type == ev.ASSISTANT_MESSAGE)


async def test_a_fresh_side_knows_every_turn(running, owner):
    parent = await talked(owner, 3)
    expected = {
        "turn": 3,
        "running_turn": None,
        "summary": None,
        "behind": 0,
        "carried": None,
        "own_system": False,
        "own_model": False,
    }
    assert await would_know(parent) == expected
    assert await knows(await open_side(parent)) == expected


async def test_one_of_an_older_message_knows_that_main_is_ahead(running, owner):
    parent = await talked(owner, 3)
    at = await first_answer(parent)
    child = await open_side(parent, at_seq=at)
    assert part(await knows(child), "turn", "behind", "running_turn") == (1, 2, None)
    assert part(await would_know(parent, at), "turn", "behind") == (1, 2)
    await say(parent, "[[every:30]] one more " + "word " * 8)
    await until_open(parent)
    late = await open_side(parent, at_seq=at)
    assert part(await knows(late), "turn", "behind", "running_turn") == (1, 2, 4)
    assert (await would_know(parent))["running_turn"] == 4
    await idle(parent)
    assert part(await knows(late), "turn", "behind", "running_turn") == (1, 3, 4)
    assert part(await knows(child), "behind", "running_turn") == (3, None)


async def test_one_of_an_empty_session_knows_nothing(running, owner):
    parent = await talked(owner, 0)
    child = await open_side(parent)
    assert part(await knows(child), "turn", "behind", "summary") == (0, 0, None)
    await say(parent, "first")
    await idle(parent)
    assert (await knows(child))["behind"] == 1


async def test_a_nested_side_counts_the_turns_of_its_own_parent_but_no_handback(running, owner):
    parent, middle = await asked(owner, turns=2)
    inner = await asked_in(middle, "deeper?")
    assert part(await knows(inner), "turn", "behind") == (3, 0)
    await settled(await merge(middle))
    assert (await knows(inner))["behind"] == 0
    await say(middle, "and?")
    await idle(middle)
    assert (await knows(inner))["behind"] == 1
    await say(parent, "main goes on")
    await idle(parent)
    assert (await knows(inner))["behind"] == 1
    assert (await knows(middle))["behind"] == 1


async def test_a_kept_side_still_knows_what_it_knew(running, owner):
    parent, child = await asked(owner, turns=2)
    await delete(parent, "keep")
    child = await sync_to_async(Session.objects.select_related("parent").get)(pk=child.pk)
    assert part(await knows(child), "turn", "behind") == (2, 0)


async def test_summaries_are_disclosed_where_they_are_inherited(running, owner):
    parent = await talked(owner, 5)
    early = await first_answer(parent)
    await compact(parent)
    await until_ended(parent, 1)
    assert (await knows(await open_side(parent)))["summary"] == [1, 3]
    assert (await would_know(parent))["summary"] == [1, 3]
    assert (await knows(await open_side(parent, at_seq=early)))["summary"] is None
    for n in range(3):
        await say(parent, f"main question {n + 6}")
        await idle(parent)
    await compact(parent)
    await until_ended(parent, 2)
    child = await asked_in(parent, "why?")
    assert (await knows(child))["summary"] == [1, 6]
    assert (await knows(await open_side(child)))["summary"] == [1, 6]


async def until_ended(session, compactions):
    while [e.type for e in await rows(session)].count(ev.COMPACTION_END) < compactions:
        pass


async def test_a_system_prompt_or_model_of_its_own_is_disclosed(running, owner, provider, settings):
    parent = await talked(owner)
    settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT = "You are an advisor."
    assert (await would_know(parent))["own_system"] is True
    child = await asked_in(parent, "why?")
    assert part(await knows(child), "own_system", "own_model") == (True, False)
    assert json.loads(provider.bodies[-1])["messages"][0] == {"role": "system", "content": "You are an advisor."}
    inner = await asked_in(child, "deeper?")
    assert (await knows(inner))["own_system"] is False  # the inherited one is the advisor's
    settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT = ""
    plain = await asked_in(parent, "why?")
    assert part(await knows(plain), "own_system", "own_model") == (False, False)
    await sync_to_async(commands.set_model)(plain, "custom/scripted-2")
    await sync_to_async(plain.refresh_from_db)()
    assert part(await knows(plain), "own_system", "own_model") == (False, True)


async def test_the_cached_share_is_that_of_the_first_request(running, owner, provider):
    parent = await talked(owner)
    child = await open_side(parent)
    assert await first_cached_share(child) is None
    await say(child, "why?")
    await idle(child)
    first = await first_cached_share(child)
    answer = next(e for e in await rows(child) if e.seq >= child.seed_length and e.type == ev.ASSISTANT_MESSAGE)
    usage = answer.data["usage"]
    assert first == usage["cacheReadTokens"] / (usage["cacheReadTokens"] + usage["inputTokens"])
    await say(child, "a very much longer second question " * 20)
    await idle(child)
    assert await first_cached_share(child) == first


async def test_a_fresh_fork_has_spent_nothing_and_carries_the_inherited_context(running, owner):
    parent = await talked(owner, 2)
    child = await open_side(parent)
    spent = (child.input_tokens, child.output_tokens, child.cache_read_tokens, child.reasoning_tokens)
    assert spent == (0, 0, 0, 0)
    assert child.context_used == parent.context_used > 0
    before = parent.input_tokens, parent.output_tokens
    await say(child, "why?")
    await idle(child, parent)
    assert child.output_tokens > 0
    assert (parent.input_tokens, parent.output_tokens) == before


async def test_sides_stand_where_they_left(running, owner):
    parent = await talked(owner)
    at = parent.next_seq
    first, second = await open_side(parent), await open_side(parent)
    await say(parent, "more")
    await idle(parent)
    third = await open_side(parent)
    await sync_to_async(commands.fork)(parent)
    assert await sides_from(parent) == {at: [first, second], third.seed_length: [third]}


# --- logs of another program ---


def foreign(*events, id="foreign"):
    """A log file with these `(type, data, surfaceOp?)`."""
    head = {"type": "session", "version": 0, "id": id, "createdAt": 1, "delegationDepth": 0}
    lines = [head]
    for seq, (kind, data, *op) in enumerate(events):
        lines.append({"type": kind, "seq": seq, "time": 1, "data": data, **({"surfaceOp": op[0]} if op else {})})
    return io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())


def told(turn):
    message = {"id": f"u{turn}", "role": "user", "content": [{"type": "text", "text": "?"}], "source": {"kind": "user"}}
    end = ("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
    return [("turn/start", {"turn": turn}), ("user/message", message, "append"), end]


@pytest.mark.django_db
class TestImported:
    def side_of(self, owner, *events):
        [parent] = import_logs(owner, [("log", foreign(*events))])
        return parent, side.open_side(parent)

    def test_whole_turns(self, owner, provider):
        _, child = self.side_of(owner, *told(7), *told(12))
        assert part(side.knows(child), "turn", "behind", "running_turn") == (12, 0, None)

    def test_unfinished_turn_is_excluded_and_said(self, owner, provider):
        parent, child = self.side_of(owner, *told(1), *told(2)[:2])
        assert part(side.knows(child), "turn", "running_turn") == (1, 2)
        assert child.seed_length == 3
        assert part(side.would_know(parent), "turn", "running_turn") == (1, 2)

    def test_compacted_by_the_other_program(self, owner, provider):
        source = {"kind": "plugin", "plugin": "compact", "compactionId": "c"}
        summary = {"id": "s", "role": "user", "content": [{"type": "text", "text": "sum"}], "source": source}
        events = [
            *told(1), *told(2),
            ("compaction/start", {"compactionId": "c", "turn": None}),
            ("compaction/summary", {
                "compactionId": "c", "summary": [], "shadowedRange": {"start": 1, "end": 4}, "shadowedSeqs": [1, 4],
                "shadowedTokenCount": 1, "provider": "p", "model": "m",
            }),
            ("user/message", summary, {"op": "replace", "start": 1, "end": 4}),
            ("compaction/end", {"compactionId": "c", "turn": None}),
        ]  # fmt: skip
        stream = foreign(*events)
        text = stream.getvalue().decode().replace('"end": 4}}\n', '"end": 4}, "sourceEventSeqs": [1, 7, 4]}\n')
        [parent] = import_logs(owner, [("log", io.BytesIO(text.encode()))])
        child = side.open_side(parent)
        assert side.knows(child)["summary"] == [1, 2]

    @pytest.mark.parametrize("seqs", [None, "x", [None, True, "1"], []])
    def test_summary_that_does_not_say_what_it_replaced(self, owner, provider, seqs):
        bare = ("compaction/summary", {"compactionId": "c", "shadowedSeqs": seqs})
        _, child = self.side_of(owner, *told(1), bare)
        assert side.knows(child)["summary"] is None

    def test_parent_that_another_program_goes_on_writing(self, owner, provider):
        [parent] = import_logs(owner, [("log", foreign(*told(1)))], read_only=True)
        child = side.open_side(parent)
        import_logs(owner, [("log", foreign(*told(1), *told(2), *told(3)[:2]))], read_only=True)
        child.parent.refresh_from_db()
        assert part(side.knows(child), "turn", "behind", "running_turn") == (1, 1, None)


@pytest.mark.django_db
@pytest.mark.parametrize("turns", [2, 200])
def test_knowing_costs_as_many_queries_for_a_long_past_as_for_a_short_one(
    owner, provider, django_assert_num_queries, turns
):
    parent = commands.create(owner)
    for half in (range(1, turns + 1), range(turns + 1, 2 * turns + 1)):
        child = side.open_side(parent) if half.start > 1 else None
        for turn in half:
            log.append(parent.pk, [ev.turn_start(turn), ev.turn_end(turn, {"kind": "completed"})])
    child = Session.objects.select_related("parent").get(pk=child.pk)
    with django_assert_num_queries(10):
        assert part(side.knows(child), "turn", "behind") == (turns, turns)
