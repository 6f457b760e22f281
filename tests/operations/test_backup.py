"""Backups made while sessions stream: what they held comes back, passes the check, and goes on."""

from __future__ import annotations

import io
import json
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider
from tests.services import Service, create_database, postgres_server

PLANTED = "sk-planted-0123456789abcdef"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Service]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request, tmp_path, postgres) -> list[dict[str, str]]:
    """The environments of two installations: one to back up, one to restore into."""
    if request.param == "sqlite":
        return [{}, {}]
    names = (f"{request.node.name[:40]}_{n}".replace("[", "_").replace("]", "").lower() for n in "ab")
    return [{"DATABASE_URL": create_database(postgres, name)} for name in names]


def run(product: Product, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of manage.py that may fail."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=Path(__file__).resolve().parents[2], env=product.env, capture_output=True, text=True
    )


def talk(product: Product, sessions: list[str], stop: threading.Event) -> None:
    n = 0
    while not stop.is_set():
        text = f"message {n} [[every:5]] [[say:{'word ' * 40}]]"
        product.call("POST", f"/api/sessions/{sessions[n % len(sessions)]}/messages", {"text": text})
        n += 1
        stop.wait(0.1)


def test_backup_under_load_restores(tmp_path, places, provider_server: ScriptedProvider):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    file = tmp_path / "backup"
    with Product(tmp_path / "a", provider_server.base_url, **places[0]) as product:
        sessions = [product.call("POST", "/api/sessions", {"title": f"Session {n}"})[1]["id"] for n in range(4)]
        stop = threading.Event()
        load = threading.Thread(target=talk, args=(product, sessions, stop))
        load.start()
        for _ in range(3):
            done = run(product, "backup", str(file))
            assert done.returncode == 0, done.stderr
        stop.set()
        load.join()
        product.wait_idle(*sessions)
        before = {pk: product.events(pk) for pk in sessions}
        assert run(product, "check_logs").returncode == 0
        refused = run(product, "restore", str(file))
        assert refused.returncode == 2
        assert refused.stderr.startswith("stop the server and the workers first")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    other = Product(tmp_path / "b", provider_server.base_url, **places[1])
    done = run(other, "restore", str(file))
    assert done.returncode == 0, done.stderr
    assert "no fault" in done.stdout
    with other:
        other.wait_idle(*sessions)
        for pk, events in before.items():
            found = said(other.events(pk))
            assert found
            assert found == said(events)[: len(found)]
            other.call("POST", f"/api/sessions/{pk}/messages", {"text": "goes on"})
            assert other.call("POST", f"/api/sessions/{pk}/fork", {"text": "why?"})[0] == 201
        other.wait_idle(*sessions)
        assert run(other, "check_logs").returncode == 0


def said(events: list[dict[str, Any]]) -> list[str]:
    """What the user said, in order: what was queued when the backup was made runs in the restored installation."""
    return [e["data"]["content"][0]["text"] for e in events if e["type"] == "user/message"]


def made(tmp_path: Path, name: str = "a", **environment: str) -> Product:
    """An installation with one user, that does not run."""
    (tmp_path / name).mkdir()
    product = Product(tmp_path / name, **environment)
    product.manage("migrate", "-v0")
    product.manage("user", "add", "ann", "--password-stdin", typed="a long password\n")
    return product


def names(product: Product) -> list[str]:
    with sqlite3.connect(product.data_dir / "sidechat.sqlite3") as connection:
        return [name for (name,) in connection.execute("SELECT username FROM auth_user")]


def test_former_database_is_kept(tmp_path):
    product = made(tmp_path)
    file = tmp_path / "backup"
    run(product, "backup", str(file))
    product.manage("user", "add", "bob", "--password-stdin", typed="a long password\n")
    done = run(product, "restore", str(file))
    assert names(product) == ["ann"]
    [kept] = product.data_dir.glob("sidechat.sqlite3.before-restore-*")
    assert kept.name in done.stdout
    with sqlite3.connect(kept) as connection:
        assert connection.execute("SELECT count(*) FROM auth_user").fetchone() == (2,)


def test_keys_are_in_it_only_on_request(tmp_path):
    product = made(tmp_path)
    (product.data_dir / ".env").write_text(f"OPENAI_API_KEY={PLANTED}\n")
    key = (product.data_dir / "secret-key").read_text()
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    assert "keep that elsewhere" in run(product, "backup", str(plain)).stdout
    run(product, "backup", str(whole), "--with-keys")
    other = made(tmp_path, "b")
    own = (other.data_dir / "secret-key").read_text()
    run(other, "restore", str(plain))
    assert (other.data_dir / "secret-key").read_text() == own
    run(other, "restore", str(whole))
    assert (other.data_dir / "secret-key").read_text() == key
    assert PLANTED in (other.data_dir / ".env").read_text()
    assert stat.S_IMODE((other.data_dir / "secret-key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage", ["absent", "empty", "text", "cut", "flipped", "other tar", "newer", "later migration"]
)
def test_what_is_no_good_backup_changes_nothing(tmp_path, damage):
    product = made(tmp_path)
    file = tmp_path / "backup"
    run(product, "backup", str(file))
    spoil(file, damage)
    done = run(product, "restore", str(file))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert names(product) == ["ann"]
    assert sorted(p.name for p in product.data_dir.iterdir() if "restore" in p.name) == []


def spoil(file: Path, damage: str) -> None:
    data = file.read_bytes()
    match damage:
        case "absent":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "text":
            file.write_bytes(b"no backup at all\n" * 100)
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case "flipped":
            at = len(data) // 2
            file.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        case "other tar":
            repack(file, {"notes.txt": b"hello"})
        case "newer":
            repack(file, {"manifest.json": json.dumps({**MANIFEST, "format": 2}).encode(), "database.sqlite3": b"x"})
        case "later migration":
            later = {**MANIFEST, "migrations": ["storage.9999_later"]}
            repack(file, {"manifest.json": json.dumps(later).encode(), "database.sqlite3": b"x"})


MANIFEST = {"format": 1, "made_at": 1, "engine": "sqlite", "migrations": [], "keys": False}


def repack(file: Path, content: dict[str, bytes]) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    file.write_bytes(zstandard.compress(plain.getvalue()))


@pytest.mark.parametrize("name", ["../escaped", "/tmp/sidechat-escaped", "keys/../../escaped", "keys/other"])
def test_names_in_a_backup_lead_nowhere(tmp_path, name):
    product = made(tmp_path)
    file = tmp_path / "backup"
    database = (product.data_dir / "sidechat.sqlite3").read_bytes()
    repack(file, {name: b"x", "manifest.json": json.dumps(MANIFEST).encode(), "database.sqlite3": database})
    before = {p.name for p in tmp_path.iterdir()}
    run(product, "restore", str(file))
    assert {p.name for p in tmp_path.iterdir()} == before
    assert not Path("/tmp/sidechat-escaped").exists()
    assert not (product.data_dir / "other").exists()


def test_damaged_database_in_a_whole_file_is_refused(tmp_path):
    product = made(tmp_path)
    file = tmp_path / "backup"
    database = bytearray((product.data_dir / "sidechat.sqlite3").read_bytes())
    database[4096 : 4096 * 6] = b"\xff" * 4096 * 5
    repack(file, {"manifest.json": json.dumps(MANIFEST).encode(), "database.sqlite3": bytes(database)})
    done = run(product, "restore", str(file))
    assert done.returncode == 2
    assert "damaged" in done.stderr
    assert names(product) == ["ann"]


def test_backup_that_cannot_be_written_leaves_nothing(tmp_path):
    product = made(tmp_path)
    done = run(product, "backup", str(tmp_path / "no" / "such" / "place"))
    assert done.returncode == 2
    assert "could not be written" in done.stderr
