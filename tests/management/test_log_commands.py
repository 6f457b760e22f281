"""Import and export from the command line."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from sidechat_web.storage.models import Session

LOGS = Path(__file__).parents[1] / "formats/logs"

pytestmark = pytest.mark.django_db


def test_files_come_in_for_the_local_user(capsys):
    call_command("import_logs", LOGS / "ok-plain.jsonl", LOGS / "ok-packed.jsonl")
    assert [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()] == ["9 events", "8 events"]
    assert {s.owner.get_username() for s in Session.objects.all()} == {"local"}


def test_a_folder_comes_in_whole(tmp_path):
    for name in ("ok-plain", "ok-old-shapes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "session.jsonl").write_bytes((LOGS / f"{name}.jsonl").read_bytes())
    (tmp_path / "notes.txt").write_text("no log")
    call_command("import_logs", tmp_path)
    assert Session.objects.count() == 2


def test_one_bad_file_keeps_all_out():
    with pytest.raises(CommandError, match=r"refuse-seq-gap\.jsonl line 7: seq gap.*log_unreadable.*nothing"):
        call_command("import_logs", LOGS / "ok-plain.jsonl", LOGS / "refuse-seq-gap.jsonl")
    assert not Session.objects.exists()


@pytest.mark.parametrize("words, why", [(["nowhere.jsonl"], "nowhere.jsonl"), (["x", "--user", "nobody"], "nobody")])
def test_a_wrong_word_is_named(words, why):
    with pytest.raises(CommandError, match=why):
        call_command("import_logs", *words)


def test_a_log_leaves_as_it_came(tmp_path):
    call_command("import_logs", LOGS / "ok-old-shapes.jsonl")
    call_command("export_log", "ok-old-shapes", output=tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == (LOGS / "ok-old-shapes.jsonl").read_bytes()


@pytest.mark.parametrize(
    "form, start", [("dsh-zstd", b"\x28\xb5\x2f\xfd"), ("markdown", b"# What is"), ("openai", b"{")]
)
def test_other_forms(tmp_path, form, start):
    call_command("import_logs", LOGS / "ok-plain.jsonl")
    call_command("export_log", "ok-plain", format=form, output=tmp_path / "out")
    assert (tmp_path / "out").read_bytes().startswith(start)


def test_an_unknown_session_is_named():
    with pytest.raises(CommandError, match="no session 'nothing'"):
        call_command("export_log", "nothing")
    with pytest.raises(CommandError, match="no session 'nothing'"):
        call_command("check_logs", "nothing")
