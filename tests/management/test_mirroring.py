"""Mirrors beside an event loop, from the command line, and as other processes notice them."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.management import call_command

from sidechat_web.formats.importing import import_logs
from sidechat_web.management.mirroring import Mirroring
from sidechat_web.runtime import live
from sidechat_web.runtime.elsewhere import Elsewhere
from sidechat_web.storage.models import Session

LOGS = Path(__file__).parents[1] / "formats/logs"
ROOT = Path(__file__).parents[2]


class Ears:
    def __init__(self):
        self.heard = []
        self.bell = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def rang(self, session_id, topic):
        self.heard.append((session_id, topic))
        self.loop.call_soon_threadsafe(self.bell.set)

    def streamed(self, session_id, delta):
        pass


@pytest.mark.django_db(transaction=True)
async def test_bells_ring_for_what_a_mirror_adds(tmp_path):
    owner = await sync_to_async(User.objects.create)(username="ann")
    ears = Ears()
    unlisten = live.listen(ears)
    mirroring = Mirroring(owner, [tmp_path])
    mirroring.start()
    (tmp_path / "session.jsonl").write_bytes((LOGS / "ok-plain.jsonl").read_bytes())
    async with asyncio.timeout(20):
        while ("row" not in {topic for _, topic in ears.heard}) or "log" not in {topic for _, topic in ears.heard}:
            await ears.bell.wait()
            ears.bell.clear()
    await mirroring.stop()
    unlisten()
    session = await sync_to_async(Session.objects.get)()
    assert {session_id for session_id, _ in ears.heard} == {session.pk} and session.read_only


@pytest.mark.django_db
def test_what_another_process_imported_is_noticed_once(tmp_path):
    owner = User.objects.create(username="ann")
    elsewhere = Elsewhere()
    assert elsewhere.grown() == []
    with (LOGS / "ok-plain.jsonl").open("rb") as stream:
        [session] = import_logs(owner, [("ok-plain.jsonl", stream)])
    assert elsewhere.grown() == [session.pk]
    assert elsewhere.grown() == []


def test_a_wrong_directory_is_refused_by_name(capsys):
    with pytest.raises(SystemExit) as stopped:
        call_command("mirror", "/nowhere/at/all")
    assert stopped.value.code == 2
    assert "/nowhere/at/all is not a directory" in capsys.readouterr().err


def test_the_command_follows_until_it_is_stopped(tmp_path):
    folder, data = tmp_path / "sessions", tmp_path / "data"
    folder.mkdir()
    (folder / "bad.jsonl").write_bytes((LOGS / "refuse-seq-gap.jsonl").read_bytes())
    (folder / "good.jsonl").write_bytes((LOGS / "ok-plain.jsonl").read_bytes())  # the newest is read first
    env = {**os.environ, "SIDECHAT_DATA_DIR": str(data), "DJANGO_SETTINGS_MODULE": "sidechat_web.settings"}
    env.pop("DATABASE_URL", None)
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "--verbosity", "0"], cwd=ROOT, env=env, check=True)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*manage, "mirror", str(folder)], cwd=ROOT, env=env, **pipes) as mirror:
        refused = mirror.stderr.readline()
        mirror.send_signal(signal.SIGTERM)
        out, _ = mirror.communicate(timeout=20)
    assert (mirror.returncode, out.splitlines()[-1]) == (0, "Stopped.")
    assert "bad.jsonl line 7: seq gap" in refused and "what was read before is kept" in refused
    found = subprocess.run([*manage, "check_logs"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert found.stdout == "1 sessions checked, no fault\n"
