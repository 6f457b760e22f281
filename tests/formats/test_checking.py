"""The check finds each kind of fault, and none in a good log."""

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from sidechat_web.core import codec
from sidechat_web.core import events as ev
from sidechat_web.formats.checking import faults
from sidechat_web.formats.stored import header_line
from sidechat_web.storage import log
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Event, Segment, Session

pytestmark = pytest.mark.django_db

T = 10
MODEL = {"kind": "model", "provider": "acme", "model": "small"}
HEADER = ev.request_header({"config": {"provider": "acme", "model": "small"}}, "initial")


def answer(step=1, *calls):
    blocks = [{"type": "tool-call", "id": c, "name": "n", "arguments": "{}"} for c in calls] or ev.text_blocks("hi")
    return ev.assistant_message(1, step, {"id": f"a{step}", "role": "assistant", "content": blocks, "source": MODEL})


def call(call_id):
    return ev.Draft(ev.TOOL_CALL, {"turn": 1, "step": 1, "callId": call_id, "name": "n", "arguments": "{}"})


def result(call_id):
    return ev.tool_result(1, 1, call_id, f"r-{call_id}", "done")


START = [ev.turn_start(1), ev.step_start(1, 1), ev.user_message("u1", ev.text_blocks("hello")), HEADER]
END = [ev.step_end(1, 1), ev.turn_end(1, {"kind": "completed"})]
GOOD = [*START, answer(1, "c1"), call("c1"), result("c1"), *END]


@pytest.fixture
def session(db):
    session_id = new_id()
    return Session.objects.create(id=session_id, log_id=session_id, owner=User.objects.create(username="ann"))


def stored(session, *drafts, time=None):
    """Rows as a faulty writer would leave them, with the head that fits."""
    head = session.head
    for seq, draft in enumerate(drafts, session.next_seq):
        event = draft.at(seq, time(seq) if time else T + seq)
        row(session, event)
        head = log.advance(head, event)
    Session.objects.filter(pk=session.pk).update(**log._head_fields(head))


def row(session, event, **columns):
    fields = {"seq": event.seq, "last_seq": event.seq, "type": event.type, "time": event.time}
    Event.objects.create(session=session, **{**fields, "lines": codec.encode(event), **columns})


def found(session):
    return [(fault.rule, fault.seq) for fault in faults(session)]


def test_a_good_log_has_no_fault(session):
    log.append(session.pk, GOOD)
    log.append(session.pk, [ev.context_message("n", "note", {"kind": "plugin", "plugin": "p"})])
    assert found(session) == []


@pytest.mark.parametrize(
    "drafts, expected",
    [
        ([*START[:2], ev.turn_start(2)], ("turn", 2)),
        ([ev.turn_start(2)], ("turn", 0)),
        ([ev.step_start(1, 1)], ("turn", 0)),
        ([ev.turn_start(1), ev.step_start(1, 2)], ("step", 1)),
        ([*START[:2], ev.step_start(1, 2)], ("step", 2)),
        ([*START, ev.step_end(1, 2)], ("step", 4)),
        ([*START, ev.turn_end(1, {"kind": "completed"})], ("step", 4)),
        ([*START, call("c9")], ("call", 4)),
        ([*START, result("c9")], ("call", 4)),
        ([*START, answer(1, "c1"), call("c1"), call("c1")], ("call", 6)),
        ([*START, answer(1, "c1"), *END], ("call", 5)),
        ([*START[:3], answer()], ("request", 3)),
        ([ev.Draft("sidechat/merged", {})], ("type", 0)),
        (
            [ev.Draft(ev.USER_MESSAGE, {"id": "u", "role": "user", "content": "text", "source": {}}, "append")],
            ("payload", 0),
        ),
        ([START[2], ev.Draft(ev.USER_MESSAGE, START[2].data, ev.Replace(0, 5), (0,))], ("surface", 1)),
    ],
)
def test_a_broken_rule_is_named_with_its_event(session, drafts, expected):
    stored(session, *drafts)
    assert expected in found(session)


def test_time_must_not_go_back_in_our_own_logs(session):
    stored(session, *GOOD, time=lambda seq: T - seq)
    assert ("time", 1) in found(session)
    Session.objects.filter(pk=session.pk).update(
        foreign_length=len(GOOD), imported=True, header_line=header_line(session)
    )
    assert found(session) == []


def test_a_missing_row_is_found(session):
    stored(session, *GOOD)
    row(session, ev.context_message("n", "x", {"kind": "plugin"}).at(12, T + 20))
    Session.objects.filter(pk=session.pk).update(next_seq=13, stable=13)
    assert ("seq", 12) in found(session)


def test_a_row_must_be_what_its_columns_say(session):
    row(session, ev.turn_start(1).at(0, T), time=T + 1, last_seq=1)
    Session.objects.filter(pk=session.pk).update(next_seq=1, open_turn=1, last_turn=1, last_time=T)
    assert [rule for rule, _ in found(session)] == ["seq", "row"]


@pytest.mark.parametrize(
    "line",
    [
        b"{oops",
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1},"x":1}',
        b'{"type":"text-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}}',
        b"[]",
        b"\xff",
    ],
)
def test_an_unreadable_row_is_found(session, line):
    Event.objects.create(session=session, seq=0, last_seq=0, type="turn/start", time=1, lines=line)
    Session.objects.filter(pk=session.pk).update(next_seq=1)
    assert ("encoding", 0) in found(session)


@pytest.mark.parametrize(
    "field, value",
    [
        ("next_seq", 5),
        ("open_turn", 4),
        ("stable", 2),
        ("last_turn", 9),
        ("last_reason", {"kind": "x"}),
        ("last_time", 1),
    ],
)
def test_the_head_must_equal_the_fold(session, field, value):
    stored(session, *GOOD)
    Session.objects.filter(pk=session.pk).update(**{field: value})
    assert "head" in [rule for rule, _ in found(session)]


@pytest.mark.parametrize("segments, base", [([(0, 4)], 5), ([(1, 5)], 5), ([(0, 3), (4, 5)], 5), ([], 5)])
def test_segments_must_cover_the_prefix_exactly(session, segments, base):
    stored(session, *GOOD)
    child_id = new_id()
    child = Session.objects.create(
        id=child_id,
        log_id=child_id,
        owner=session.owner,
        parent=session,
        parent_log_id=session.log_id,
        base=base,
        seed_length=base,
        next_seq=base,
    )
    for start, stop in segments:
        Segment.objects.create(session=child, origin=session, start=start, stop=stop)
    assert "segments" in [rule for rule, _ in found(child)]


def test_the_header_must_name_the_log(session):
    Session.objects.filter(pk=session.pk).update(
        header_line=b'{"type":"session","version":0,"id":"other","createdAt":1,"delegationDepth":0}'
    )
    assert found(session) == [("header", None)]


def test_command_prints_a_line_for_each_fault_and_fails(session, capsys):
    log.append(session.pk, GOOD)
    call_command("check_logs")
    assert capsys.readouterr().out == "1 sessions checked, no fault\n"
    Session.objects.filter(pk=session.pk).update(stable=3)
    with pytest.raises(CommandError) as failed:
        call_command("check_logs", session.pk)
    assert failed.value.returncode == 1
    assert capsys.readouterr().out == f"{session.pk} - head stable is 3, the log says 9\n"
