"""The writer: seqs, heads, shared prefixes, and a database that refuses to change an event."""

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction

from sidechat_web.core import events as ev
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Event, Segment, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(db):
    owner = User.objects.create(username="ann")
    sid = new_id()
    return Session.objects.create(id=sid, owner=owner, log_id=sid)


def say(turn, text):
    return [
        ev.turn_start(turn),
        ev.user_message(f"m{turn}", ev.text_blocks(text)),
        ev.turn_end(turn, {"kind": "completed"}),
    ]


def test_seqs_are_contiguous_and_head_follows(session):
    log.append(session.pk, say(1, "one"))
    log.append(session.pk, [ev.turn_start(2)])
    session.refresh_from_db()
    assert (session.next_seq, session.open_turn, session.stable, session.last_turn) == (4, 2, 3, 2)
    assert [e.seq for e in reading.events(session)] == [0, 1, 2, 3]


def test_chunks_are_one_row_a_batch_and_read_back_one_by_one(session):
    log.append(session.pk, [ev.turn_start(1)])
    bodies = [(5, {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": t}}) for t in "abcde"]
    assert log.append_chunks([log.ChunkBatch(session.pk, 1, bodies)]) == {session.pk: 6}
    session.refresh_from_db()
    assert Event.objects.filter(session=session).count() == 2
    assert [e.data["chunk"]["text"] for e in reading.events(session, after=2, chunks=True)] == ["c", "d", "e"][-3:]
    assert len(list(reading.events(session))) == 1


def test_chunks_of_a_turn_that_is_no_longer_open_are_dropped(session):
    log.append(session.pk, say(1, "one"))
    bodies = [(5, {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "late"}})]
    assert log.append_chunks([log.ChunkBatch(session.pk, 1, bodies)]) == {}


def test_runner_without_its_turn_cannot_write(session):
    log.append(session.pk, [ev.turn_start(1)])
    with pytest.raises(log.TurnGone):
        log.append(session.pk, [ev.step_start(2, 1)], turn=2)


def test_stale_head_loses(session):
    stale = Session.objects.get(pk=session.pk)
    log.append(session.pk, say(1, "one"))
    with pytest.raises(log.AppendConflict), transaction.atomic():
        log.append_locked(stale, say(1, "other"))


@pytest.mark.parametrize("sql", ["UPDATE storage_event SET time = 0", "DELETE FROM storage_event"])
def test_database_refuses_to_change_an_event(session, sql):
    log.append(session.pk, say(1, "one"))
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


def test_effective_log_runs_through_segments(session):
    log.append(session.pk, say(1, "one") + say(2, "two"))
    child = Session.objects.create(
        owner=session.owner, log_id="c", parent=session, seed_length=3, base=3, next_seq=3, stable=3, last_turn=1
    )
    Segment.objects.create(session=child, origin=session, start=0, stop=3)
    log.append(child.pk, say(2, "child"))
    child.refresh_from_db()
    assert [e.seq for e in reading.events(child)] == [0, 1, 2, 3, 4, 5]
    assert [m["id"] for m in reading.surface(child).messages()] == ["m1", "m2"]
    assert [e.seq for e in reading.tail(child, 4)] == [2, 3, 4, 5]
    assert len(list(reading.lines(child))) == 6
