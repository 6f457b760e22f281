"""The structured handback: what it is asked for, and the turns that the note cites."""

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime.sidechat import citations, frame, merge_back
from tests.conftest import idle

from .side_story import asked, asked_in, handbacks, merge, of_form, own, renew, rows, say, settled, talked

references = sync_to_async(citations.references)
all_citations = sync_to_async(citations.citations)
merge_selected = sync_to_async(merge_back.merge_selected)


async def questions(side):
    """The seq of each own question by its turn."""
    found, turn = {}, None
    for event in await own(side):
        if event.type == ev.TURN_START:
            turn = event.turn
        elif event.type == ev.USER_MESSAGE:
            found.setdefault(turn, event.seq)
    return found


async def request_to(side):
    return [ev.text_of(e.data) for e in of_form(await own(side), frame.HANDBACK_REQUEST)]


async def test_the_request_asks_for_the_parts_and_names_the_turns(running, owner):
    _parent, side = await asked(owner, turns=2)
    await say(side, "and\nis it fast?")
    await idle(side)
    await settled(await merge(side))
    [text] = await request_to(side)
    places = [text.index(part) for part in ("1850 characters", "Conclusion", "Evidence", "Caveats", "Next step")]
    assert places == sorted(places)
    assert "(turn 4)" in text
    assert "turn 3: “is it safe?”; turn 4: “and is it fast?”." in text
    assert frame.AGAIN_TEXT not in text


async def test_a_second_note_is_only_about_what_is_new(running, owner):
    _parent, side = await asked(owner)
    await settled(await merge(side))
    await say(side, "and now?")
    await idle(side)
    await settled(await merge(side))
    _first, second = await request_to(side)
    assert frame.AGAIN_TEXT in second and "The user changed it" not in second


async def test_a_note_that_the_user_changed_is_told_to_the_side(running, owner):
    _parent, side = await asked(owner)
    await settled(await merge(side, text="It is *not* safe."))
    await say(side, "and now?")
    await idle(side)
    await settled(await merge(side))
    [text] = await request_to(side)
    assert text.endswith("the main session has it like this: “It is *not* safe.”")


@pytest.mark.parametrize(
    ("body", "turns"),
    [
        ("See (turn 2).", [2]),
        ("Turns 2 and 3 show it; turn 2 again.", [2, 3]),
        ("turns 2, 3, turn 4", [2, 3, 4]),
        ("turns 2–3 or turn #4", [2, 3, 4]),
        ("turn 1 is main's, turn 99 nobody's", []),
        ("return 2 and nocturne 3", []),
        ("turn 99999999999999999999", []),
    ],
)
async def test_cited_turns_lead_to_their_questions(running, owner, body, turns):
    parent, side = await asked(owner)
    for n in (3, 4):
        await say(side, f"side question {n}")
        await idle(side)
    await merge(side, text=body)
    [note] = handbacks(await rows(parent))
    at = await questions(side)
    assert await references(note, side) == [(turn, at[turn]) for turn in turns]
    text = ev.text_of(note.data)
    cited = (await all_citations([note], [side])).get(note.seq, [])
    assert [text[one.start : one.end] for one in cited] == [str(one.turn) for one in cited]


async def test_of_several_sides_each_part_cites_its_own(running, owner, provider):
    parent = await talked(owner)
    one, two = await asked_in(parent, "safe?"), await asked_in(parent, "fast?")
    provider.handback = "It is (turn 2)."
    await settled(await merge_selected([one, two]))
    [note] = handbacks(await rows(parent))
    assert await references(note, one) == [(2, (await questions(one))[2])]
    assert await references(note, two) == [(2, (await questions(two))[2])]
    [first, second] = (await all_citations([note], [one, two]))[note.seq]
    assert (first.session, second.session) == (one.log_id, two.log_id)


async def test_in_a_written_note_of_several_a_turn_that_two_sides_have_is_nobodys(running, owner):
    parent = await talked(owner)
    one, two = await asked_in(parent, "safe?"), await asked_in(parent, "fast?")
    await say(two, "really?")
    await idle(two)
    await merge_selected([one, two], text="Turn 2 says one thing, turn 3 another.")
    [note] = handbacks(await rows(parent))
    found = (await all_citations([note], [one, two]))[note.seq]
    assert [(c.session, c.turn) for c in found] == [(two.log_id, 3)]


async def test_the_title_in_the_first_line_cites_nothing(running, owner):
    parent = await talked(owner)
    side = await asked_in(parent, "what of turn 2?")
    await merge(side, text="Nothing.")
    [note] = handbacks(await rows(parent))
    assert await references(note, side) == []
    assert await references((await rows(parent))[2], side) == []


async def test_citing_costs_one_query_for_any_number_of_sides(running, owner, django_assert_num_queries):
    parent = await talked(owner)
    sides = [await asked_in(parent, f"question {n}") for n in range(4)]
    for side in sides:
        await merge(side, text="As turn 2 says.")
    notes = handbacks(await rows(parent))

    @sync_to_async
    def counted():
        with django_assert_num_queries(1):
            return citations.citations(notes, sides)

    assert len(await counted()) == 4


async def test_a_renewed_side_is_asked_about_its_own_turns(running, owner):
    parent, old = await asked(owner)
    await say(parent, "more")
    await idle(parent)
    new = await renew(old, text="still safe?")
    await idle(new)
    await settled(await merge(new))
    [text] = await request_to(new)
    assert text.endswith("The turns of this side session: turn 3: “still safe?”.")
