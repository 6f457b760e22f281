"""Typed readers of environment variables. A bad value raises ImproperlyConfigured with its name and the form."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def text(name: str, *, default: str) -> str:
    return os.environ.get(name, "").strip() or default


def words(name: str, *, default: Sequence[str]) -> list[str]:
    """Comma-separated words."""
    return [w.strip() for w in text(name, default=",".join(default)).split(",") if w.strip()]


def boolean(name: str, *, default: bool) -> bool:
    return switch(name, default=default)


def switch(name: str, *, default: bool) -> bool:
    value = text(name, default="on" if default else "off").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    _refuse(name, value, "on or off")


def integer(name: str, *, default: int, least: int) -> int:
    value = text(name, default=str(default))
    if not value.isdecimal() or int(value) < least:
        _refuse(name, value, f"a whole number of at least {least}")
    return int(value)


def choice(name: str, options: Sequence[str], *, default: str) -> str:
    value = text(name, default=default)
    if value not in options:
        _refuse(name, value, "one of " + ", ".join(options))
    return value


def subset(name: str, options: Sequence[str]) -> list[str]:
    """Comma-separated words out of `options`; none by default."""
    chosen = words(name, default=[])
    if not set(chosen) <= set(options):
        _refuse(name, ",".join(chosen), "a comma-separated list out of " + ", ".join(options))
    return chosen


def directory(name: str, *, default: Path) -> Path:
    """An existing, writable directory; made (mode 0700) where it is missing."""
    path = Path(text(name, default=str(default))).expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as e:
        _refuse(name, str(path), f"a directory that can be made ({e.strerror})")
    return path


def secret_key(name: str, file: Path) -> str:
    """The variable, or the key kept in `file`, made on first use (mode 0600)."""
    value = text(name, default="")
    if value:
        if len(value) < 32:
            _refuse(name, "…", "at least 32 characters")
        return value
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return file.read_text().strip()
    with os.fdopen(fd, "w") as out:
        key = secrets.token_urlsafe(48)
        out.write(key)
    return key


def database(name: str, *, sqlite: Path) -> dict[str, Any]:
    """Django's settings for `postgresql://user:password@host:port/name`, or SQLite in WAL mode."""
    url = text(name, default="")
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(sqlite),
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA cache_size=-16000;",
            },
        }
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql") or not parts.path.strip("/"):
        _refuse(name, parts.scheme + "://…", "postgresql://user:password@host:port/database")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
    }


def load_dotenv(file: Path) -> None:
    """Take `NAME=value` lines as defaults: what the environment already has wins."""
    if not file.is_file():
        return
    for number, line in enumerate(file.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, eq, value = line.partition("=")
        if not eq:
            raise ImproperlyConfigured(f"{file}, line {number}: expected NAME=value")
        os.environ.setdefault(name.strip().removeprefix("export "), value.strip().strip("'\""))


def _refuse(name: str, value: str, expected: str) -> NoReturn:
    raise ImproperlyConfigured(f"{name}={value!r}: expected {expected}")
