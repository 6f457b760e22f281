"""Surfaces are folded once in a process, and stay true."""

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from sidechat_web.core import events as ev
from sidechat_web.core.events import Draft, Replace
from sidechat_web.core.surface import Surface
from sidechat_web.storage import log, reading, surfaces
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Event, Session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session():
    surfaces.forget()
    session_id = new_id()
    return Session.objects.create(id=session_id, log_id=session_id, owner=User.objects.create(username="ann"))


def note(words):
    return ev.context_message(new_id(), words, {"kind": "plugin", "plugin": "p"})


def words(surface):
    return [ev.text_of(message) for message in surface.messages()]


def test_only_what_was_added_is_read_again(session, django_assert_num_queries):
    log.append(session.pk, [note(str(n)) for n in range(5)])
    assert words(reading.surface(session)) == list("01234")
    log.append(session.pk, [note("5")])
    with django_assert_num_queries(1) as asked:
        assert words(reading.surface(session)) == list("012345")
    assert '"seq" >= 5' in asked.captured_queries[0]["sql"]


def test_a_surface_belongs_to_its_caller(session):
    log.append(session.pk, [note("a"), note("b")])
    mine = reading.surface(session)
    mine.apply(Draft(ev.USER_MESSAGE, note("c").data, Replace(0, 1), (0, 1)).at(2, 1))
    assert words(mine) == ["c"] and words(reading.surface(session)) == ["a", "b"]


def test_replacements_reach_a_surface_that_was_kept(session):
    log.append(session.pk, [note("a"), note("b"), note("c")])
    reading.surface(session)
    log.append(session.pk, [Draft(ev.CONTEXT_MESSAGE, note("ab").data, Replace(0, 1), (0, 1)), note("d")])
    assert words(reading.surface(session)) == ["ab", "c", "d"]
    assert reading.surface(session).nodes == Surface.of(reading.events(session)).nodes


def test_what_a_transaction_undoes_is_not_kept(session):
    log.append(session.pk, [note("a")])
    reading.surface(session)
    with transaction.atomic():
        log.append(session.pk, [note("undone")])
        assert words(reading.surface(session)) == ["a", "undone"]
        transaction.set_rollback(True)
    log.append(session.pk, [note("b")])
    assert words(reading.surface(session)) == ["a", "b"]


def test_little_is_kept(session, monkeypatch):
    monkeypatch.setattr(surfaces, "MAX_BYTES", 400)
    others = [Session.objects.create(id=i, log_id=i, owner=session.owner) for i in (new_id(), new_id())]
    for one in (session, *others):
        log.append(one.pk, [note("x" * 50)])
        reading.surface(one)
    assert [surfaces.find(one.pk) is not None for one in (session, *others)] == [False, False, True]
    log.append(session.pk, [note("x" * 500)])
    assert len(words(reading.surface(session))) == 2 and surfaces.find(session.pk) is None
    assert Event.objects.count() == 4
