"""What leaves: a log that the original program accepts and that comes back the same, messages, Markdown."""

import io
import json

import pytest
import zstandard
from django.contrib.auth.models import User

from sidechat_web.core import events as ev
from sidechat_web.core import rules
from sidechat_web.formats.checking import faults
from sidechat_web.formats.dsh import DshLog
from sidechat_web.formats.exporting import export_dsh, export_markdown, export_openai
from sidechat_web.formats.importing import import_logs
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Segment, Session

from .foreign import event, file, header, turn
from .foreign import log as foreign_log

pytestmark = pytest.mark.django_db

NOTE = {"kind": "plugin", "plugin": "sidechat", "form": "handback", "session": "side", "throughSeq": 7, "edited": True}
CONFIG = {"config": {"provider": "acme", "model": "small"}, "system": "Be brief."}
MODEL = {"kind": "model", "provider": "acme", "model": "small"}


@pytest.fixture
def own(db):
    """A session of ours: a turn with streamed text and a tool, and a note merged after it."""
    session_id = new_id()
    owner = User.objects.create(username="ann")
    session = Session.objects.create(id=session_id, log_id=session_id, owner=owner, title="Fruit", cwd="/home/ann")
    call = {"type": "tool-call", "id": "c1", "name": "look", "arguments": '{"in": "```"}'}
    thought = {"type": "reasoning", "text": "Look\nfirst."}
    asked = {"id": "a1", "role": "assistant", "content": [thought, call], "source": MODEL}
    said = {"id": "a2", "role": "assistant", "content": ev.text_blocks("Two pears."), "source": MODEL}
    start = [ev.turn_start(1), ev.step_start(1, 1), ev.user_message("u1", ev.text_blocks("What is in there?"))]
    log.append(session_id, [*start, ev.request_header(CONFIG, "initial")])
    deltas = [
        (5, ev.chunk(1, 1, {"type": "reasoning-delta", "index": 0, "text": t}).data) for t in ("Lo", "ok\n", "first.")
    ]
    log.append_chunks([log.ChunkBatch(session_id, 1, deltas)])
    log.append(session_id, [ev.assistant_message(1, 1, asked, {"inputTokens": 3, "outputTokens": 4})])
    log.append(session_id, [ev.Draft(ev.TOOL_CALL, {"turn": 1, "step": 1, "callId": "c1", "name": "look"})])
    log.append(session_id, [ev.tool_result(1, 1, "c1", "r1", "pears ``` 2", call_seq=8), ev.step_end(1, 1)])
    log.append(session_id, [ev.step_start(1, 2), ev.assistant_message(1, 2, said), ev.step_end(1, 2)])
    log.append(session_id, [ev.turn_end(1, {"kind": "completed"}), ev.context_message("n1", "Buy them.", NOTE)])
    session.refresh_from_db()
    return session


def fork(parent, cut):
    session_id = new_id()
    child = Session.objects.create(
        id=session_id,
        log_id=session_id,
        owner=parent.owner,
        parent=parent,
        parent_log_id=parent.log_id,
        seed_length=cut,
        base=cut,
        next_seq=cut,
        stable=cut,
        last_time=parent.last_time,
        last_turn=1,
        last_reason={"kind": "completed"},
    )
    Segment.objects.create(session=child, origin=parent, start=0, stop=cut)
    log.append(session_id, [ev.context_message("f1", "You advise.", {"kind": "plugin", "plugin": "sidechat"})])
    return Session.objects.get(pk=session_id)


def exported(session, **options):
    return b"".join(export_dsh(session, **options))


def read(data):
    return [event for line in DshLog(io.BytesIO(data)).lines() for event in line.events()]


def brought_back(session):
    other = User.objects.create(username=new_id())
    return import_logs(other, [file(exported(session))])[0]


def test_own_logs_have_only_types_that_the_original_knows(own):
    events = read(exported(own))
    assert {event.type for event in events} <= rules.KNOWN_TYPES
    note = events[-1]
    assert (note.type, note.data["id"], note.data["role"], note.data["source"]) == ("user/message", "n1", "user", NOTE)
    assert len(events) == own.next_seq


def test_chunks_leave_packed(own):
    assert b'"type":"reasoning-chunks"' in exported(own)


def test_header_is_built_from_the_session_in_the_order_of_the_format(own):
    child = fork(own, 16)
    [line, *_] = exported(child).split(b"\n", 1)
    assert list(json.loads(line)) == [
        "type",
        "version",
        "id",
        "createdAt",
        "cwd",
        "parentSession",
        "seedLength",
        "delegationDepth",
    ] or list(json.loads(line)) == [
        "type",
        "version",
        "id",
        "createdAt",
        "parentSession",
        "seedLength",
        "delegationDepth",
    ]
    assert json.loads(line)["parentSession"] == own.log_id and json.loads(line)["seedLength"] == 16


def test_a_log_comes_back_with_the_same_messages(own):
    for session in (own, fork(own, 16)):
        back = brought_back(session)
        assert reading.surface(back).messages() == reading.surface(session).messages()
        assert (back.head, list(faults(back))) == (Session.objects.get(pk=session.pk).head, [])
        assert exported(back) == exported(session)


def test_a_prefix_cut_inside_a_row_leaves_only_the_prefix(own):
    assert len(read(exported(fork(own, 6)))) == 7


def test_compressed_frames_hold_the_same_text(own):
    data = exported(own, compress=True)
    first = zstandard.ZstdDecompressor().decompressobj()
    assert first.decompress(data) == exported(own).split(b"\n", 1)[0] + b"\n"
    assert read(data) == read(exported(own))


def test_old_shapes_leave_upgraded_once_a_session_was_continued(db):
    old = [event(0, "user/message", {"content": [], "source": {"kind": "user"}}, surfaceOp="append")]
    context = [event(1, "context/message", {"content": [], "source": {"kind": "plugin"}}, surfaceOp="append")]
    data = foreign_log(header("old"), old, context)
    [session] = import_logs(User.objects.create(username="ann"), [file(data)])
    assert exported(session) == data
    log.append(session.pk, [ev.turn_start(1), ev.turn_end(1, {"kind": "completed"})])
    events = read(exported(session))
    assert [e.type for e in events] == ["user/message", "user/message", "turn/start", "turn/end"]
    assert [e.data["id"] for e in events[:2]] == ["legacy-message:old:0", "legacy-message:old:1"]


def test_openai_messages_are_those_of_a_request(own):
    out = json.loads(b"".join(export_openai(own)))
    assert [m["role"] for m in out["messages"]] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert (out["model"], out["messages"][-1]["content"]) == ("small", "Buy them.")


def test_openai_export_names_images_instead_of_failing(db):
    image = {"type": "image", "attachment": {"attachmentId": "x"}}
    said = {"content": [image], "source": {"kind": "user"}, "role": "user", "id": "u"}
    data = foreign_log(header("pictures"), [event(0, "user/message", said, surfaceOp="append")])
    [session] = import_logs(User.objects.create(username="ann"), [file(data)])
    assert json.loads(b"".join(export_openai(session)))["messages"] == [{"role": "user", "content": "[image]"}]


def test_markdown_reads_well_and_names_where_a_note_came_from(own):
    out = b"".join(export_markdown(fork(own, 16))).decode()
    assert "## Turn 1\n\n### User\n\nWhat is in there?\n\n" in out
    assert "> *Reasoning*\n>\n> Look\n> first.\n" in out
    assert "#### Call `c1` of `look`\n\n````json\n" in out and "````\npears ``` 2\n````" in out
    assert f"inherited from `{own.log_id}`" in out
    note = b"".join(export_markdown(own)).decode()
    assert "*From plugin `sidechat`, handback; of session `side`, through event 7; edited*\n\nBuy them." in note


def test_markdown_of_a_failed_turn_says_why(db):
    failed = [
        event(0, "turn/start", {"turn": 1}),
        event(1, "turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": "no route", "code": "X"}}}),
    ]
    [session] = import_logs(User.objects.create(username="ann"), [file(foreign_log(header("f"), failed, turn(2, 2)))])
    assert "*The turn ended: error: no route*" in b"".join(export_markdown(session)).decode()
