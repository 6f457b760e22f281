"""Databases of releases, and one of now: brought up to date, every log is whole, readable and can be forked."""

from pathlib import Path

import pytest
import zstandard

from tests.faults.product import Product
from tests.operations import release_fixture
from tests.scripted_provider import ScriptedProvider

KEPT = sorted((Path(__file__).parents[1] / "fixtures").glob("release-*.sqlite3.zst"))


@pytest.mark.parametrize("kept", [None, *KEPT], ids=lambda file: file.name if file else "now")
def test_every_session_is_readable_and_can_be_forked(tmp_path, kept, provider_server: ScriptedProvider):
    if kept is None:
        kept = tmp_path / "now.sqlite3.zst"
        release_fixture.make(kept)
    home = tmp_path / "home"
    home.mkdir()
    (home / "sidechat.sqlite3").write_bytes(zstandard.ZstdDecompressor().decompress(kept.read_bytes()))
    with Product(home, provider_server.base_url) as product:
        done = product.manage("check_logs")
        assert done.returncode == 0, done.stdout
        sessions = product.call("GET", "/api/sessions")[1]["sessions"]
        assert {session["title"] for session in sessions} == {"Main", "Side", "Fork", "Failed"}
        for session in sessions:
            path = f"/api/sessions/{session['id']}"
            messages = product.call("GET", f"{path}/messages")[1]["messages"]
            assert messages
            status, fork = product.call("POST", f"{path}/fork", {"side": False})
            assert status == 201
            inherited = product.call("GET", f"/api/sessions/{fork['id']}/messages")[1]["messages"]
            assert inherited[: len(messages)] == messages  # a fork of a side is told that it may act
            assert product.call("POST", f"/api/sessions/{fork['id']}/messages", {"text": "Go on."})[0] == 202
            product.wait_idle(fork["id"])
        assert product.manage("check_logs").returncode == 0
