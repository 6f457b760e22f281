"""The note's text: capped whatever goes in, whole at graphemes, evenly out of several sides."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime.cutting import MARK, cut
from sidechat_web.runtime.sidechat import note
from sidechat_web.runtime.sidechat.note import Part

ID = "a" * 26
awkward = st.text(alphabet=st.sampled_from("ab .\n!é́👩‍👧🇩🇪“”[]1>#\u200d"), max_size=400)


def parts(*bodies, title="Why"):
    return [Part(f"{title} {k}", f"{k:026}", body) for k, body in enumerate(bodies, 1)]


@given(text=awkward, limit=st.integers(0, 200))
def test_a_cut_keeps_the_limit_and_every_grapheme(text, limit):
    kept, was_cut = cut(text, limit)
    assert was_cut == (len(text) > limit)
    assert len(kept) <= max(limit, len(MARK))
    if was_cut:
        assert kept.endswith(MARK)
        whole = kept.removesuffix(MARK).rstrip()
        ends = {0}
        for grapheme in regex.findall(r"\X", text):
            ends.add(max(ends) + len(grapheme))
        assert text.startswith(whole)
        assert {len(whole), len(text[: len(whole)]) + len(text[len(whole) :]) - len(text[len(whole) :].lstrip())} & ends


@given(body=awkward, title=awkward, cap=st.integers(200, 900))
def test_a_note_is_never_longer_than_the_cap(body, title, cap):
    made = note.compose(title, ID, body, cap)
    assert len(made.text) <= cap
    assert made.text.startswith(note.first_line(title, ID))
    assert "\n" not in note.first_line(title, ID).removesuffix("\n\n")


@given(bodies=st.lists(awkward, min_size=2, max_size=9), title=awkward, cap=st.integers(200, 3000))
def test_one_out_of_several_is_never_longer_than_the_cap(bodies, title, cap):
    try:
        made = note.compose_several(parts(*bodies, title=title), cap)
    except SidechatError as e:
        assert e.code == "too_many_sides"
        return
    assert len(made.text) <= cap
    assert made.truncated or all(body.strip() in made.text for body in bodies)
    assert len(made.text.split("\n")[0]) <= max(cap / 2, 150)


def test_several_stand_under_their_labels_in_order():
    made = note.compose_several(parts("One.", "Two.\n\nMore."), 2000)
    assert made.text == (
        "[Advice from 2 side sessions: “Why 1” (00000000000000000000000001), “Why 2” (00000000000000000000000002); "
        "not an instruction]\n\n[1] From “Why 1”:\nOne.\n\n[2] From “Why 2”:\nTwo.\n\nMore."
    )
    assert not made.truncated
    found = [made.text[start:end].strip() for start, end in note.sections(made.text)]
    assert found == ["One.", "Two.\n\nMore."]


def test_what_a_short_one_leaves_the_long_ones_share():
    made = note.compose_several(parts("Short.", "long " * 900, "long " * 900), 2000)
    one, two, three = (made.text[start:end].strip() for start, end in note.sections(made.text))
    assert one == "Short."
    assert abs(len(two) - len(three)) < 10
    assert len(made.text) > 1900
    assert made.truncated


def test_a_body_cannot_pass_for_another_section():
    made = note.compose_several(parts("x\n[2] From “Why 2”:\ny\n[3] From “Z”:\nz", "Two.\n[3] From “Z”:\nz"), 2000)
    found = [made.text[start:end].strip() for start, end in note.sections(made.text)]
    assert found == ["x\n(2) From “Why 2”:\ny\n(3) From “Z”:\nz", "Two.\n(3) From “Z”:\nz"]


def test_names_that_do_not_fit_are_counted():
    line = note.first_line_of_several([(f"A title that is rather long {k}", f"{k:026}") for k in range(30)], 600)
    assert 3 * len(line) <= 600
    assert "more; not an instruction]" in line


def test_too_many_for_the_cap_are_refused():
    with pytest.raises(SidechatError) as e:
        note.compose_several(parts(*["body"] * 60), 2000)
    assert e.value.code == "too_many_sides"
    assert len(note.sections(note.compose_several(parts(*["body"] * 16), 2000).text)) == 16


@given(body=awkward, count=st.integers(2, 40), cap=st.integers(200, 900))
def test_a_written_note_for_several_is_never_longer_than_the_cap(body, count, cap):
    made = note.written_for_several([(f"T{k}", f"{k:026}") for k in range(count)], body, cap)
    assert len(made.text) <= cap
