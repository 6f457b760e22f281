"""Which slot a request of the embedded server takes, and which saved state it starts from."""

from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.runtime.prompt_states import PromptStates, Seat, shared

SYSTEM, ASK, ANSWER, FRAME, MORE = '{"system"}', '{"a question"}', '{"an answer"}', '{"a frame"}', '{"more"}'


def taken(states: PromptStates, *prompt: str) -> Seat:
    seat = states.take(prompt)
    assert seat is not None
    return seat


def ended(states: PromptStates, seat: Seat, size: int = 10) -> list[str]:
    gone = states.keep(seat, states.new_name(), size)
    states.leave(seat, evaluated=True)
    return gone


def ran(states: PromptStates, *prompt: str, size: int = 10) -> list[str]:
    return ended(states, taken(states, *prompt), size)


def test_the_next_turn_stays_in_its_slot():
    states = PromptStates(3, 1000)
    first = taken(states, SYSTEM, ASK)
    ended(states, first)
    ran(states, SYSTEM, "{another session}")
    assert taken(states, SYSTEM, ASK, ANSWER, MORE) == Seat(first.slot, (SYSTEM, ASK, ANSWER, MORE), None)


def test_a_fork_of_a_streaming_parent_restores_the_copy_and_so_does_the_next():
    states = PromptStates(3, 1000)
    ran(states, SYSTEM, ASK)
    parent = taken(states, SYSTEM, ASK, ANSWER, MORE)
    forks = [taken(states, SYSTEM, ASK, ANSWER, FRAME, text) for text in ("one", "two")]
    assert [fork.restore for fork in forks] == ["1.state", "1.state"]
    assert len({parent.slot, *(fork.slot for fork in forks)}) == 3


def test_a_copy_contained_in_a_newer_one_is_forgotten():
    states = PromptStates(2, 1000)
    ran(states, SYSTEM, ASK)
    assert ran(states, SYSTEM, ASK, ANSWER, MORE) == ["1.state"]


def test_the_least_recently_used_copies_make_room():
    states = PromptStates(1, 100)
    ran(states, "a", size=40)
    ran(states, "b", size=40)
    states.leave(taken(states, "a", "c"), evaluated=False)
    assert ran(states, "d", size=40) == ["2.state"]


def test_all_slots_busy():
    states = PromptStates(1, 100)
    seat = taken(states, "a")
    assert states.take(("b",)) is None
    ended(states, seat)
    assert states.take(("b",)) is not None


def test_a_refused_request_leaves_nothing_to_rely_on():
    states = PromptStates(1, 100)
    ran(states, SYSTEM, ASK)
    states.leave(taken(states, SYSTEM, ASK, ANSWER), evaluated=False)
    assert taken(states, SYSTEM, ASK, ANSWER).restore == "1.state"


prompts = st.lists(st.sampled_from("abcd"), max_size=5).map(tuple)


@given(st.lists(prompts, max_size=20), prompts)
def test_the_start_is_the_best_there_is(before, prompt):
    states = PromptStates(2, 10_000)
    for one in before:
        ran(states, *one)
    held = {slot.id: slot.prompt for slot in states.slots}
    saved = {s.name: s.prompt for s in states.saved}
    seat = taken(states, *prompt)
    start = saved[seat.restore] if seat.restore else held[seat.slot]
    assert shared(start, prompt) == max((shared(one, prompt) for one in before), default=0)
