"""Imports: families in any order, again, longer, other histories, and what a session shows of its log."""

import pytest
from django.contrib.auth.models import User

from sidechat_web.core import events as ev
from sidechat_web.core.errors import LogConflict, LogRefused
from sidechat_web.formats.checking import faults
from sidechat_web.formats.exporting import export_dsh
from sidechat_web.formats.importing import import_logs
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Event, Session

from .foreign import event, file, header, turn
from .foreign import log as foreign_log

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(db):
    return User.objects.create(username="ann")


def bring(owner, *logs, **options):
    return import_logs(owner, [file(data, f"{n}.jsonl") for n, data in enumerate(logs)], **options)


ONE = foreign_log(header("one"), turn(1, 0))
TWO = foreign_log(header("one"), turn(1, 0), turn(2, 8, "again"))
PARENT = foreign_log(header("parent"), turn(1, 0), turn(2, 8))
CHILD = foreign_log(header("child", parentSession="parent", seedLength=8), turn(1, 0), turn(2, 8, "aside"))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("order", [(PARENT, CHILD), (CHILD, PARENT)])
def test_family_is_linked_in_any_order(ann, order, together):
    if together:
        bring(ann, *order)
    else:
        bring(ann, order[0])
        bring(ann, order[1])
    child = Session.objects.get(log_id="child")
    assert (child.parent.log_id, child.kind, child.seed_length, child.base) == ("parent", "fork", 8, 0)
    assert Session.objects.get(log_id="parent").kind == "main"


def test_no_session_becomes_its_own_ancestor(ann):
    bring(ann, foreign_log(header("a", parentSession="b")), foreign_log(header("b", parentSession="a")))
    bring(ann, foreign_log(header("self", parentSession="self")))
    parents = {s.log_id: s.parent and s.parent.log_id for s in Session.objects.all()}
    assert parents == {"a": "b", "b": None, "self": None} or parents == {"a": None, "b": "a", "self": None}


def test_the_same_log_adds_nothing_and_a_longer_one_extends(ann):
    [first] = bring(ann, ONE)
    [again] = bring(ann, ONE)
    assert (again.pk, again.next_seq, Event.objects.count()) == (first.pk, 8, 8)
    [longer] = bring(ann, TWO)
    assert (longer.pk, longer.next_seq, longer.foreign_length) == (first.pk, 16, 16)
    [older] = bring(ann, ONE)
    assert (older.pk, older.next_seq) == (first.pk, 16)
    assert b"".join(export_dsh(longer)) == TWO and list(faults(longer)) == []


def test_the_same_file_twice_in_one_call_is_one_session(ann):
    assert len(bring(ann, ONE, TWO)) == 1


@pytest.mark.parametrize(
    "other, line",
    [
        (foreign_log(header("one"), turn(1, 0, "else")), 4),
        (foreign_log(header("one", cwd="/elsewhere"), turn(1, 0)), 1),
    ],
)
def test_another_history_of_the_same_log_is_refused(ann, other, line):
    bring(ann, ONE)
    with pytest.raises(LogConflict) as refused:
        bring(ann, PARENT, other)
    assert (refused.value.code, refused.value.line, refused.value.file) == ("log_conflict", line, "1.jsonl")
    assert Session.objects.get().next_seq == 8


def test_a_session_continued_here_takes_nothing_more_from_outside(ann):
    [session] = bring(ann, ONE)
    log.append(session.pk, [ev.context_message("n1", "a note", {"kind": "plugin", "plugin": "sidechat"})])
    assert bring(ann, ONE)[0].next_seq == 9
    with pytest.raises(LogConflict):
        bring(ann, TWO)


def test_what_left_and_comes_back_is_the_same_session(ann):
    [session] = bring(ann, ONE)
    log.append(session.pk, [ev.context_message("n1", "a note", {"kind": "plugin", "plugin": "sidechat"})])
    [back] = bring(ann, b"".join(export_dsh(session)))
    assert (back.pk, back.next_seq) == (session.pk, 9)


def test_owners_do_not_meet(ann):
    bob = User.objects.create(username="bob")
    assert bring(ann, ONE)[0].pk != bring(bob, ONE)[0].pk


def test_a_deleted_session_does_not_stand_in_the_way(ann):
    [session] = bring(ann, ONE)
    Session.objects.filter(pk=session.pk).update(deleted_at=1)
    assert bring(ann, ONE)[0].pk != session.pk


def test_mirrors_are_read_only(ann):
    [session] = bring(ann, ONE)
    [mirror] = bring(ann, TWO, read_only=True)
    assert (mirror.pk, mirror.kind, mirror.read_only, mirror.next_seq) == (session.pk, "mirror", True, 16)


def test_only_own_events_count(ann):
    tokens = {"inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 3}
    seed = [*turn(1, 0, **tokens), event(8, "session/title", {"title": "Parent"})]
    own = [*turn(2, 9, "aside", **tokens), event(17, "session/title", {"title": "Aside\0\ud83d"})]
    [child] = bring(ann, foreign_log(header("child", parentSession="x", seedLength=9), seed, own))
    assert child.title == "Aside\ufffd\ufffd"
    assert (child.input_tokens, child.output_tokens, child.cache_read_tokens, child.context_used) == (10, 2, 3, 15)


def test_an_unnamed_session_is_called_by_its_first_question(ann):
    [session] = bring(ann, foreign_log(header("one"), turn(1, 0, "what\n  is " + "long " * 40)))
    assert session.title.startswith("what is long") and session.title.endswith("…") and len(session.title) <= 80


def test_head_settings_and_activity_come_from_the_log(ann):
    [session] = bring(ann, foreign_log(header("one"), turn(1, 0), turn(2, 8)[:3]))
    assert (session.open_turn, session.stable, session.last_turn, session.last_reason) == (
        2,
        8,
        2,
        {"kind": "completed"},
    )
    assert session.settings["header"] == {"config": {"provider": "acme", "model": "small"}, "system": "Be brief."}
    assert session.updated_at == session.last_time == session.created_at + 10


def test_chunk_lines_share_rows_and_only_upgraded_lines_have_a_second_form(ann):
    start = [event(0, "turn/start", {"turn": 1, "trigger": {"kind": "message"}})]
    body = {"turn": 1, "step": 1}
    chunks = [
        event(n, "assistant/chunk", {**body, "chunk": {"type": "text-delta", "index": 0, "text": "x"}})
        for n in range(1, 601)
    ]
    [session] = bring(ann, foreign_log(header("one"), start, chunks))
    rows = list(Event.objects.filter(session=session).order_by("seq"))
    assert [(row.seq, row.last_seq, row.chunk, row.normal is None) for row in rows] == [
        (0, 0, False, False),
        (1, 257, True, True),
        (258, 514, True, True),
        (515, 600, True, True),
    ]
    assert [e.seq for e in reading.events(session, after=255, stop=260, chunks=True)] == [256, 257, 258, 259]
    assert next(reading.events(session)).data == {"turn": 1}


@pytest.mark.parametrize("log_id", ["nul\0", "half \ud83d", "../../etc", "😀", "x" * 512])
def test_any_id_is_stored(ann, log_id):
    data = foreign_log(header(log_id))
    [session] = bring(ann, data)
    assert bring(ann, data)[0].pk == session.pk and b"".join(export_dsh(session)) == data


def test_an_endless_id_is_refused(ann):
    with pytest.raises(LogRefused, match="512"):
        bring(ann, foreign_log(header("x" * 513)))


def test_huge_numbers_are_stored(ann):
    usage = {"inputTokens": 2**53 - 1, "outputTokens": 10**400, "cacheReadTokens": -5}
    data = foreign_log(header("one", seedLength=0, delegationDepth=2**53 - 1), turn(1, 0, **usage), turn(2, 8, **usage))
    [session] = bring(ann, data)
    assert (session.input_tokens, session.output_tokens) == (2**53 - 1, 0)
    assert list(faults(session)) == []
