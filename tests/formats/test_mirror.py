"""Files that grow, shrink, move and break while they are followed."""

import io
import os
import threading
import time
from pathlib import Path

import pytest
import zstandard
from django.contrib.auth.models import User
from django.db import connection

from sidechat_web.core import events as ev
from sidechat_web.core.events import text_of
from sidechat_web.formats import following, mirror
from sidechat_web.formats.checking import faults
from sidechat_web.formats.exporting import export_dsh
from sidechat_web.formats.importing import import_logs
from sidechat_web.formats.mirror import Mirror
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import merge_back, side
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Event, Session

from . import agents
from .agents import ClaudeFile, call, text
from .foreign import event, header, turn
from .foreign import log as foreign_log

pytestmark = pytest.mark.django_db

HEAD = header("one")
LINES = [*turn(1, 0), *turn(2, 8, "again"), *turn(3, 16, "more")]


@pytest.fixture
def ann(db):
    return User.objects.create(username="ann")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "sessions"


class Harness:
    """A session file as the harness writes it."""

    def __init__(self, root: Path, name: str = "one", suffix: str = ".jsonl") -> None:
        self.path = root / "--home-ann-shop--" / name / f"session{suffix}"
        self.path.parent.mkdir(parents=True)
        self.zstd = suffix.endswith("zstd")

    def add(self, *lines: bytes) -> None:
        self.raw(self.batch(*lines))

    def batch(self, *lines: bytes) -> bytes:
        data = b"".join(line + b"\n" for line in lines)
        return zstandard.ZstdCompressor(write_checksum=True).compress(data) if self.zstd else data

    def raw(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


@pytest.fixture(params=[".jsonl", ".jsonl.zstd"])
def file(request, root):
    made = Harness(root, suffix=request.param)
    made.add(HEAD)
    made.add(*LINES[:8])
    return made


def follow(ann, root, **callbacks):
    found = Mirror(ann, root, **callbacks)
    found.sweep()
    return found


def stored(**fields):
    return Session.objects.get(deleted_at=None, **fields)


def length():
    return stored().next_seq


def refusal(session):
    return session.settings["mirror"].get("refused", {}).get("code")


def age(path, seconds=120):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_each_file_becomes_a_read_only_session(ann, root, file):
    rung = []
    follow(ann, root, changed=rung.append)
    session = stored()
    assert (session.kind, session.read_only, session.next_seq, session.title) == ("mirror", True, 8, "hello?")
    assert rung == [session.pk] and list(faults(session)) == []


def test_a_file_grows_and_only_what_was_added_is_read(ann, root, file, monkeypatch):
    following_it = follow(ann, root)
    opened = []
    monkeypatch.setattr(following, "open_log", lambda *args: opened.append(args))
    for n in range(8, len(LINES)):
        file.add(LINES[n])
        following_it.look([file.path])
        assert length() == n + 1
    assert opened == [] and following_it.progress.events == 24
    assert b"".join(export_dsh(stored())) == foreign_log(HEAD, LINES) and list(faults(stored())) == []


def test_a_running_turn_is_shown_as_running_until_the_log_ends_it(ann, root, file):
    followed = follow(ann, root)
    file.add(*LINES[8:11])
    followed.look([file.path])
    assert (stored().status, stored().open_turn, stored().stable) == ("running", 2, 8)
    age(file.path)
    followed.look([file.path])
    assert stored().status == "running"
    file.add(*LINES[11:16])
    followed.look([file.path])
    assert (stored().status, stored().last_reason) == ("idle", {"kind": "completed"})


def test_partial_writes_wait(ann, root, file):
    followed = follow(ann, root)
    data = file.batch(*LINES[8:16])
    for cut in range(0, len(data), 37):
        file.raw(data[cut : cut + 37])
        followed.look([file.path])
        assert followed.progress.refused == {}
    assert length() == 16


def test_a_torn_tail_that_is_cut_and_written_anew_goes_on(ann, root, file):
    size = file.path.stat().st_size
    file.raw(file.batch(*LINES[8:10])[:-9])
    followed = follow(ann, root)
    assert length() == (8 if file.zstd else 9)
    os.truncate(file.path, size if file.zstd else size + len(LINES[8]) + 1)
    file.add(*LINES[8 if file.zstd else 9 : 16])
    followed.look([file.path])
    assert length() == 16 and followed.progress.refused == {}


def test_what_a_crash_left_in_a_torn_frame_is_read_once_the_file_is_quiet(ann, root):
    file = Harness(root, suffix=".jsonl.zstd")
    file.add(HEAD)
    long = event(
        8,
        "user/message",
        {"content": [], "source": {"kind": "user"}, "role": "user", "id": "x" * 9},
        surfaceOp="append",
    )
    frame = zstandard.ZstdCompressor(level=1).compressobj()
    torn = frame.compress(b"".join(line + b"\n" for line in [*LINES[:8], long]))
    torn += frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    file.raw(torn)
    followed = follow(ann, root)
    assert length() == 0
    age(file.path)
    followed.look([file.path])
    assert length() == 9
    file.raw(frame.compress(LINES[9] + b"\n") + frame.flush())
    followed.look([file.path])
    assert length() == 10 and followed.progress.refused == {}


def test_garbage_after_the_last_turn_is_no_refusal_and_before_one_it_is(ann, root):
    file = Harness(root)
    file.add(HEAD, *LINES[:8], b"garbage")
    followed = follow(ann, root)
    assert length() == 8 and followed.progress.refused == {}
    file.add(*LINES[8:16])
    followed.look([file.path])
    session = stored()
    assert (session.next_seq, refusal(session)) == (8, "log_unreadable")
    assert "line 10" in followed.progress.refused[file.path]


def test_a_shorter_file_is_a_conflict_and_what_was_read_stays(ann, root, file):
    file.add(*LINES[8:16])
    followed = follow(ann, root)
    whole = file.path.read_bytes()
    file.path.write_bytes(file.batch(HEAD) + file.batch(*LINES[:8]))
    followed.look([file.path])
    session = stored()
    assert (session.next_seq, refusal(session)) == (16, "log_conflict")
    assert "8 events, fewer than the 16" in followed.progress.refused[file.path]
    file.path.write_bytes(whole + file.batch(*LINES[16:]))
    follow(ann, root)
    session = stored()
    assert (session.next_seq, refusal(session)) == (24, None)


def test_another_history_is_a_conflict(ann, root, file):
    followed = follow(ann, root)
    file.path.unlink()
    file.add(HEAD)
    file.add(*turn(1, 0, "something else"), *turn(2, 8))
    followed.look([file.path])
    assert (length(), refusal(stored())) == (8, "log_conflict")
    assert reading.event(stored(), 2).data["content"][0]["text"] == "hello?"


def test_a_rewrite_in_place_is_noticed(ann, root):
    file = Harness(root)
    file.add(HEAD, *LINES[:16])
    followed = follow(ann, root)
    file.path.write_bytes(foreign_log(HEAD, turn(1, 0), turn(2, 8, "other"), turn(3, 16), turn(4, 24)))
    followed.look([file.path])
    assert (length(), refusal(stored())) == (16, "log_conflict")


def test_a_replaced_file_with_the_same_history_goes_on(ann, root, file):
    followed = follow(ann, root)
    new = file.path.with_suffix(".tmp")
    new.write_bytes(file.path.read_bytes() + file.batch(*LINES[8:16]))
    new.replace(file.path)
    followed.look([file.path])
    assert length() == 16 and followed.progress.refused == {}


def test_renamed_and_deleted_files_leave_their_sessions(ann, root, file):
    followed = follow(ann, root)
    moved = file.path.parent.with_name("moved")
    file.path.parent.rename(moved)
    followed.sweep()
    assert length() == 8
    file.path = moved / file.path.name
    file.add(*LINES[8:16])
    followed.look([file.path])
    assert length() == 16
    file.path.unlink()
    followed.look([file.path])
    followed.sweep()
    assert length() == 16 and followed.progress.refused == {}


def test_a_restart_reads_only_what_changed(ann, root, file, monkeypatch):
    follow(ann, root)
    opened = []
    real = following.open_log
    monkeypatch.setattr(following, "open_log", lambda *args: opened.append(args) or real(*args))
    again = Mirror(ann, root)
    again._seen = mirror._seen_before(ann)
    again.sweep()
    assert opened == [] and length() == 8
    file.add(*LINES[8:16])
    again.look([file.path])
    assert len(opened) == 1 and length() == 16


def test_a_deleted_mirror_does_not_come_back_by_itself(ann, root, file):
    followed = follow(ann, root)
    commands.delete(stored())
    file.add(*LINES[8:16])
    followed.look([file.path])
    follow(ann, root)
    assert not Session.objects.filter(deleted_at=None).exists()


def test_an_imported_log_becomes_a_mirror_and_one_that_was_continued_here_does_not(ann, root, file):
    [session] = import_logs(ann, [("one", io.BytesIO(file.path.read_bytes()))])
    follow(ann, root)
    assert stored().pk == session.pk and stored().read_only
    Session.objects.update(read_only=False, kind="main")
    log.append(session.pk, [ev.context_message("n", "a note", {"kind": "plugin", "plugin": "p"})])
    file.add(*LINES[8:16])
    follow(ann, root)
    assert (stored().kind, stored().read_only, refusal(stored())) == ("main", False, "log_conflict")


def test_what_is_no_log_is_named_and_the_rest_goes_on(ann, root, file):
    (root / "notes.jsonl").write_text("hello\n")
    followed = follow(ann, root)
    assert length() == 8
    assert [path.name for path in followed.progress.refused] == ["notes.jsonl"]
    assert (followed.progress.files, followed.progress.read) == (2, 2)


def test_many_files_are_not_all_remembered(ann, root, monkeypatch):
    monkeypatch.setattr(mirror, "_REMEMBERED", 2)
    made = [Harness(root, f"s{n}") for n in range(5)]
    for n, one in enumerate(made):
        one.add(header(f"s{n}"), *LINES[:8])
        age(one.path, 100 - n)
    followed = follow(ann, root)
    assert sum(f.remembers for f in followed._followers.values()) == 2
    for one in made:
        one.add(*LINES[8:16])
        followed.look([one.path])
    assert set(Session.objects.values_list("next_seq", flat=True)) == {16}


# -- Other agents --------------------------------------------------------------------------------


@pytest.fixture
def claude(root):
    path = root / "-home-ann-shop" / "session.jsonl"
    path.parent.mkdir(parents=True)
    return path


def test_claude_code_is_followed_record_by_record(ann, root, claude):
    file = agents.claude()
    followed = follow(ann, root)
    for n in range(1, len(file.lines) + 1):
        claude.write_bytes(file.bytes(n)) if n == 1 else claude.open("ab").write(
            file.bytes()[len(file.bytes(n - 1)) : len(file.bytes(n))]
        )
        followed.look([claude])
        assert followed.progress.refused == {}
    session = stored()
    assert session.status == "running" and session.open_turn == 2  # its end is not marked
    age(claude, 3)
    followed.tick()
    assert (stored().status, stored().last_turn) == ("idle", 2)
    [again] = import_logs(ann, agents.files(file.bytes()))
    assert again.next_seq == stored().next_seq and list(faults(again)) == []


def test_a_streaming_answer_is_seen_before_it_is_whole(ann, root, claude):
    file = ClaudeFile()
    file.user("Look")
    file.answer("msg_1", text("I look."), call("t1"))
    claude.write_bytes(file.bytes(2))
    follow(ann, root)
    chunks = [e.data["chunk"] for e in reading.events(stored(), chunks=True) if e.type == ev.ASSISTANT_CHUNK]
    assert [chunk["text"] for chunk in chunks] == ["I look."]
    assert [text_of(m) for m in reading.surface(stored()).messages()] == ["Look"]


def test_a_turn_that_went_on_after_it_looked_done_goes_on_as_another(ann, root, claude):
    file = ClaudeFile()
    file.user("Look")
    file.answer("msg_1", text("I look."))
    claude.write_bytes(file.bytes())
    age(claude, 61)
    followed = follow(ann, root)
    assert stored().status == "idle"
    file.answer("msg_2", text("And again."), stop="end_turn")
    claude.write_bytes(file.bytes())
    age(claude, 3)
    followed.sweep()
    session = stored()
    assert (session.last_turn, session.status, refusal(session)) == (2, "idle", None)
    follow(ann, root)
    [again] = import_logs(ann, agents.files(file.bytes()))
    assert again.next_seq == session.next_seq and list(faults(again)) == []


def test_codex_files_in_their_folders(ann, root):
    path = root / "2026" / "06" / "01" / "rollout-2026-06-01T12-00-00-x.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(agents.codex().bytes(12))
    followed = follow(ann, root)
    assert stored().status == "running"
    path.write_bytes(agents.codex().bytes())
    followed.look([path])
    assert (stored().status, stored().last_turn, followed.progress.refused) == ("idle", 2, {})
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    path.unlink()
    followed.sweep()
    assert stored().last_turn == 2 and followed.progress.refused == {}


# -- What can be done with a mirror --------------------------------------------------------------


def test_a_side_can_be_opened_and_its_note_is_for_copying(ann, root, file, provider):
    follow(ann, root)
    opened = side.open_side(stored(), model="custom/scripted")
    assert (opened.seed_length, opened.kind) == (8, "side")
    log.append(opened.pk, [ev.turn_start(2), ev.turn_end(2, {"kind": "completed"})])
    assert merge_back.why_not(opened)[0] == "parent_read_only"


def test_a_new_name_stands_beside_the_log(ann, root, file):
    followed = follow(ann, root)
    commands.rename(stored(), "My name")
    file.add(*LINES[8:16])
    followed.look([file.path])
    assert (stored().title, stored().next_seq, refusal(stored())) == ("My name", 16, None)


# -- Live ----------------------------------------------------------------------------------------


@pytest.fixture
def running(transactional_db, root):
    """A mirror in a thread of its own; returns how to wait for what it does."""
    stop, changed = threading.Event(), threading.Event()
    owner = User.objects.create(username="live")
    found = Mirror(owner, root, changed=lambda session_id: changed.set())
    thread = threading.Thread(target=lambda: (found.run(stop), connection.close()))
    thread.start()

    def until(check):
        for _ in range(400):
            changed.wait(0.05)
            changed.clear()
            if check():
                return
        raise AssertionError("the mirror did not come to that")

    yield until
    stop.set()
    thread.join()


@pytest.mark.parametrize("polling", [False, True])
@pytest.mark.django_db(transaction=True)
def test_live(root, monkeypatch, polling, request):
    """The directory comes late, a file comes into it, grows, and another directory takes its place."""
    monkeypatch.setattr(mirror, "_is_silent", lambda path: polling)
    monkeypatch.setattr(mirror, "POLL_SECONDS", 0.05)
    until = request.getfixturevalue("running")
    file = Harness(root)
    file.add(HEAD, *LINES[:8])
    until(lambda: Session.objects.filter(next_seq=8).exists())
    file.add(*LINES[8:11])
    until(lambda: Session.objects.filter(next_seq=11, open_turn=2).exists())
    root.rename(root.with_name("old"))
    other = Harness(root, "two")
    other.add(header("two"), *LINES[:16])
    until(lambda: Session.objects.filter(log_id="two", next_seq=16).exists())
    with other.path.open("ab") as appending:
        appending.write(LINES[16] + b"\n" + LINES[17][:10])
        appending.flush()
        until(lambda: Session.objects.filter(log_id="two", next_seq=17).exists())
        appending.write(LINES[17][10:] + b"\n")
    until(lambda: Session.objects.filter(log_id="two", next_seq=18).exists())
    assert Event.objects.filter(session__log_id="one").count() == 11
