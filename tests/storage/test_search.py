"""The words of messages: found in the session where they were said, and gone with it."""

import pytest
from django.contrib.auth.models import User

from sidechat_web.core import events as ev
from sidechat_web.core import words
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import side
from sidechat_web.storage import log, search
from sidechat_web.storage.access import visible
from sidechat_web.storage.models import Passage, Session, Share
from tests.pages.conftest import asked, ended, said

pytestmark = pytest.mark.django_db

HOSTILE = [
    '"',
    "'",
    "*",
    "a*b",
    "OR",
    "NOT x",
    "x NEAR(",
    "^x",
    "(((",
    "col:x",
    "-x",
    "\\",
    "%",
    ":*",
    "' OR 1=1 --",
    "}",
]


@pytest.fixture(autouse=True)
def _provider(settings):
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.SIDECHAT_DEFAULT_MODEL = "custom/scripted"


@pytest.fixture
def ann(db):
    return User.objects.create(username="ann")


def session(owner, *turns, title="Plans"):
    made = commands.create(owner, title=title)
    for drafts in turns:
        log.append(made.pk, drafts)
    made.refresh_from_db()
    return made


def found(user, query):
    return set(search.matching(visible(user), query))


def hits(user, query):
    shown = list(search.matching(visible(user), query))
    return {
        Session.objects.get(pk=pk).title: hit.seq for pk, hit in search.newest_hits(visible(user), shown, query).items()
    }


def test_words_of_questions_and_answers_are_found_by_their_beginnings(ann):
    one = session(ann, said(1, "Why was the Straße renamed?", "Because Café src/app_main.py moved."))
    for query in ("renam", "strasse", "CAFE main", "app py", "moved because"):
        assert found(ann, query) == {one}, query
    for query in ("enamed", "cafe teapot", "zzz"):
        assert found(ann, query) == set(), query


def test_titles_are_found_too(ann):
    one = session(ann, title="Port the reader")
    assert found(ann, "reader port") == {one}
    assert found(ann, "p") == {one}


def test_signs_without_spaces_are_found_one_by_one(ann):
    one = session(ann, said(1, "日本語の質問", "答え"))
    assert found(ann, "質問") == found(ann, "語") == {one}


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_queries_ask_for_their_words(ann, query):
    session(ann, said(1, "alpha", "beta"))
    assert found(ann, query) == set()
    assert found(ann, f"alp {query} zzz") == set()


def test_what_the_machinery_writes_is_not_found(ann):
    main = session(ann, said(1, "alpha", "beta"))
    side.open_side(main)
    assert found(ann, "advisor") == set()


def test_inherited_text_counts_where_it_was_said(ann):
    main = session(ann, said(1, "alpha", "beta"))
    fork = side.open_side(main, title="Aside")
    log.append(fork.pk, said(2, "gamma", "delta"))
    assert found(ann, "alpha") == {main}
    assert found(ann, "gamma") == {fork}
    assert [hit.seq for hit in search.within(fork, "alpha")] == [hit.seq for hit in search.within(main, "alpha")]
    assert search.within(main, "gamma") == []


def test_heirs_of_a_deleted_session_keep_what_they_inherited(ann):
    main = session(ann, said(1, "alpha", "beta"))
    older, _ = side.open_side(main, title="Older"), side.open_side(main, title="Younger")
    log.append(main.pk, said(2, "secret", "later"))
    commands.delete(main, "keep")
    assert found(ann, "alpha") == {older}
    assert hits(ann, "alpha") == {"Older": 3}
    assert found(ann, "secret") == set()
    assert not Passage.objects.filter(words__contains="secret").exists()


def test_deleted_sessions_leave_no_words(ann):
    commands.delete(session(ann, said(1, "alpha", "beta")), None)
    assert not Passage.objects.exists()
    assert not search._saying(["alpha"]).exists()


def test_only_what_the_user_may_see_is_found(ann):
    bob = User.objects.create(username="bob")
    main = session(ann, said(1, "alpha", "beta"))
    assert found(bob, "alpha") == set()
    Share.objects.create(session=main, user=bob)
    assert found(bob, "alpha") == {main}


def test_newest_hit_has_the_text_around_it(ann):
    one = session(ann, said(1, "alpha", "x"), said(2, "again Álpha here", "y"))
    (hit,) = search.newest_hits(visible(ann), [one], "alpha").values()
    assert (hit.seq, [(p.text, p.found) for p in hit.snippet]) == (
        9,
        [("again ", False), ("Álpha", True), (" here", False)],
    )


def test_a_failed_append_leaves_no_words(ann):
    one = session(ann, asked(1, "alpha"))
    with pytest.raises(log.TurnGone):
        log.append(one.pk, asked(7, "omega"), turn=7)
    log.append(one.pk, ended(1))
    assert found(ann, "omega") == set()


def test_long_text_with_many_words_is_found_to_its_end(ann):
    one = session(ann, said(1, " ".join(f"word{n}" for n in range(40_000)), "ok"))
    assert found(ann, "word39999") == {one}


def test_snippets_stay_on_a_line_and_hold_no_half_characters():
    pieces = words.snippet("a\n\ud800 " + "filler " * 40 + "needle\tx", "need")
    assert search.texts(pieces).startswith("…") and "needle x" in search.texts(pieces)
    assert "\ud800" not in search.texts(words.snippet("\ud800 needle", "need"))


def test_messages_say_what_people_and_models_say():
    draft = ev.context_message("m", "framed", {"kind": "plugin", "plugin": "sidechat", "form": "advisor"})
    assert words.said(draft.at(0, 0)) == ""
    note = ev.context_message("m", "noted", {"kind": "plugin", "plugin": "sidechat", "session": "x"})
    assert words.said(note.at(0, 0)) == "noted"
