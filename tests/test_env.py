"""The environment: what is accepted, how a bad value is refused, and that every variable is documented."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from sidechat_web import env

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def variable(monkeypatch):
    def put(value: str) -> str:
        monkeypatch.setenv("SOME_NAME", value)
        return "SOME_NAME"

    return put


@pytest.mark.parametrize(
    ("read", "value", "form"),
    [
        (lambda n: env.switch(n, default=True), "perhaps", "on or off"),
        (lambda n: env.integer(n, default=5, least=2), "1", "a whole number of at least 2"),
        (lambda n: env.integer(n, default=5, least=2), "3.5", "a whole number of at least 2"),
        (lambda n: env.integer(n, default=5, least=2), "٣", "a whole number of at least 2"),
        (lambda n: env.choice(n, ["a", "b"], default="a"), "c", "one of a, b"),
        (lambda n: env.subset(n, ["a", "b"]), "a,c", "a comma-separated list out of a, b"),
        (lambda n: env.host_names(n, default=[]), "https://example.org", "host names without scheme or port"),
        (lambda n: env.host_names(n, default=[]), "example.org:80", "host names without scheme or port"),
        (lambda n: env.model(n), "openai/", "PROVIDER/MODEL"),
        (lambda n: env.model(n), "gpt 5", "PROVIDER/MODEL"),
        (lambda n: env.api_key(n), "sk-1\nX-Header: 1", "printable ASCII"),
        (lambda n: env.url(n, ["redis", "rediss"]), "localhost:6379", "redis://HOST… or rediss://HOST…"),
        (lambda n: env.url(n, ["http"]), "http://host:port/", "http://HOST…"),
        (lambda n: env.server(n), "ftp://host", "HOST, HOST:PORT or http://HOST:PORT"),
        (lambda n: env.server(n), "host:x", "HOST, HOST:PORT or http://HOST:PORT"),
        (lambda n: env.directory(n, default=Path()), "/dev/null/x", "a directory, or a path where one can be made"),
        (lambda n: env.directory(n, default=Path()), __file__, "a directory, or a path where one can be made"),
        (lambda n: env.secret_key(n, Path()), "short", "at least 32 characters"),
        (lambda n: env.directories(n), "/nowhere/at/all", "absolute paths of existing directories"),
        (lambda n: env.directories(n), "tmp", "absolute paths of existing directories"),
        (lambda n: env.secret_keys(n), "short," + "x" * 32, "keys of at least 32 characters"),
        (lambda n: env.database(n, sqlite=Path()), "mysql://host/db", "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
        (lambda n: env.database(n, sqlite=Path()), "postgresql://host:x/db", "postgresql://USER:PASSWORD@HOST:PORT"),
        (lambda n: env.database(n, sqlite=Path()), "postgresql://host", "postgresql://USER:PASSWORD@HOST:PORT"),
    ],
)
def test_bad_values_are_refused_by_name_and_form(variable, read, value, form):
    with pytest.raises(ImproperlyConfigured) as refusal:
        read(variable(value))
    assert str(refusal.value).startswith("SOME_NAME=")
    assert f"expected {form}" in str(refusal.value)


@pytest.mark.parametrize("read", [env.api_key, lambda n: env.secret_key(n, Path())])
def test_secrets_are_not_repeated(variable, read):
    with pytest.raises(ImproperlyConfigured) as refusal:
        read(variable("hush-hush käy"))
    assert "hush" not in str(refusal.value)


def test_passwords_in_addresses_are_not_repeated(variable):
    with pytest.raises(ImproperlyConfigured) as refusal:
        env.database(variable("mysql://ann:hush@host/db"), sqlite=Path())
    assert "hush" not in str(refusal.value)


def test_empty_is_unset(variable):
    assert env.integer(variable("  "), default=7, least=1) == 7
    assert env.url(variable(""), ["http"]) == ""


@pytest.mark.parametrize("host", ["localhost", "box:11434", "http://10.0.0.2:11434/", "https://ollama.example.org"])
def test_servers(variable, host):
    assert env.server(variable(host)) == host


def test_postgresql(variable):
    found = env.database(variable("postgresql://ann:p%40ss@db.example.org:5433/side?sslmode=require"), sqlite=Path())
    assert [found[k] for k in ("NAME", "USER", "PASSWORD", "HOST", "PORT")] == [
        "side",
        "ann",
        "p@ss",
        "db.example.org",
        "5433",
    ]
    assert found["OPTIONS"]["sslmode"] == "require"


def test_the_secret_key_is_made_once_and_kept_private(variable, tmp_path):
    file = tmp_path / "secret-key"
    first = env.secret_key(variable(""), file)
    assert len(first) >= 32
    assert env.secret_key(variable(""), file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_dotenv_gives_defaults(monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_NAME", "from the environment")
    monkeypatch.setenv("OTHER_NAME", "")
    monkeypatch.delenv("OTHER_NAME")
    (tmp_path / ".env").write_text("# a remark\n\nSOME_NAME=x\nexport OTHER_NAME='a = b'\n")
    env.load_dotenv(tmp_path / ".env")
    assert os.environ["SOME_NAME"] == "from the environment"
    assert os.environ["OTHER_NAME"] == "a = b"


def test_a_bad_dotenv_line_is_named(tmp_path):
    (tmp_path / ".env").write_text("SOME_NAME=x\nnonsense\n")
    with pytest.raises(ImproperlyConfigured, match="line 2: expected NAME=value"):
        env.load_dotenv(tmp_path / ".env")


def test_a_bad_value_ends_every_command_with_a_sentence(tmp_path):
    environment = {**os.environ, "SIDECHAT_DATA_DIR": str(tmp_path), "SIDECHAT_STEP_LIMIT": "many"}
    del environment["DJANGO_SETTINGS_MODULE"]
    done = subprocess.run(
        [sys.executable, "manage.py", "serve"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "SIDECHAT_STEP_LIMIT='many': expected a whole number of at least 1\n"


def test_every_variable_is_documented_and_every_documented_one_exists():
    code = [ROOT / "sidechat", *(ROOT / "sidechat_web").rglob("*.py")]
    read = re.compile(r'(?:env\.\w+|environ\.get|getenv|environ)[(\[]\s*"([A-Z_]+)"')
    used = {name for file in code for name in read.findall(file.read_text())}
    foreign = {"DJANGO_SETTINGS_MODULE"}
    documented = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE))
    assert used - foreign == documented


def test_every_package_is_pinned_and_has_its_reason():
    reasons = (ROOT / "docs/decisions/dependencies.md").read_text()
    for file in ("requirements.txt", "requirements-dev.txt", "requirements-local.txt", "requirements-audit.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if not line.startswith("#"):
                pinned = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?==[\w.]+", line)
                assert pinned, line
                assert re.search(rf"^\|.*\b{pinned[1]}\b.*\|", reasons, re.MULTILINE), line
