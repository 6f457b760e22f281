"""Typed readers of environment variables. A bad value raises ImproperlyConfigured with its name and the form."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


def text(name: str, *, default: str) -> str:
    return os.environ.get(name, "").strip() or default


def words(name: str, *, default: Sequence[str]) -> list[str]:
    """Comma-separated words."""
    return [w.strip() for w in text(name, default=",".join(default)).split(",") if w.strip()]


def switch(name: str, *, default: bool) -> bool:
    value = text(name, default="on" if default else "off").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    refuse(name, value, "on or off")


def integer(name: str, *, default: int, least: int) -> int:
    value = text(name, default=str(default))
    if not (value.isascii() and value.isdecimal()) or int(value) < least:
        refuse(name, value, f"a whole number of at least {least}")
    return int(value)


def choice(name: str, options: Sequence[str], *, default: str) -> str:
    value = text(name, default=default)
    if value not in options:
        refuse(name, value, "one of " + ", ".join(options))
    return value


def host_names(name: str, *, default: Sequence[str]) -> list[str]:
    """Host names as Django's ALLOWED_HOSTS takes them; `.example.org` covers its subdomains, `*` any name."""
    found = words(name, default=default)
    for host in found:
        if host != "*" and not _HOST.fullmatch(host.removeprefix(".")):
            refuse(name, host, "host names without scheme or port, separated by commas")
    return found


def model(name: str) -> str:
    """A model id, or nothing."""
    value = text(name, default="")
    if any(c.isspace() for c in value) or value.startswith("/") or value.endswith("/"):
        refuse(name, value, "PROVIDER/MODEL, or the bare name of a model, without spaces")
    return value


def api_key(name: str) -> str:
    """A key as it goes into an HTTP header, or nothing. A bad one is not repeated."""
    value = text(name, default="")
    if not all("!" <= c <= "~" for c in value):
        refuse(name, "…", "printable ASCII characters without spaces")
    return value


def url(name: str, schemes: Sequence[str]) -> str:
    """An absolute URL of one of `schemes`, or nothing."""
    value = text(name, default="")
    if value and not _is_url(value, schemes):
        refuse(name, _without_password(value), " or ".join(f"{scheme}://HOST…" for scheme in schemes))
    return value


def server(name: str) -> str:
    """`HOST`, `HOST:PORT` or an http(s) URL, or nothing."""
    value = text(name, default="")
    if value and not _is_url(value if "://" in value else f"http://{value}", ("http", "https")):
        refuse(name, value, "HOST, HOST:PORT or http://HOST:PORT")
    return value


def subset(name: str, options: Sequence[str]) -> list[str]:
    """Comma-separated words out of `options`; none by default."""
    chosen = words(name, default=[])
    if not set(chosen) <= set(options):
        refuse(name, ",".join(chosen), "a comma-separated list out of " + ", ".join(options))
    return chosen


def directory(name: str, *, default: Path) -> Path:
    """An existing, writable directory; made (mode 0700) where it is missing."""
    path = Path(text(name, default=str(default))).expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as e:
        refuse(name, str(path), f"a directory, or a path where one can be made ({e.strerror})")
    if not os.access(path, os.W_OK | os.X_OK):
        refuse(name, str(path), "a directory that this user can write to")
    return path


def directories(name: str) -> list[str]:
    """Absolute paths of existing directories, separated by commas; none by default."""
    found = words(name, default=[])
    for path in found:
        if not os.path.isabs(path) or not os.path.isdir(path):
            refuse(name, path, "absolute paths of existing directories, separated by commas")
    return found


def secret_key(name: str, file: Path) -> str:
    """The variable, or the key kept in `file`, made on first use (mode 0600)."""
    value = text(name, default="")
    if value:
        if len(value) < 32:
            refuse(name, "…", "at least 32 characters")
        return value
    draft = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(secrets.token_urlsafe(48))
    try:
        os.link(draft, file)  # whole or not at all, and the first of two processes wins
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return file.read_text().strip()


def secret_keys(name: str) -> list[str]:
    """Former secret keys, separated by commas, newest first; none by default."""
    found = words(name, default=[])
    if any(len(key) < 32 for key in found):
        refuse(name, "…", "keys of at least 32 characters, separated by commas")
    return found


def database(name: str, *, sqlite: Path) -> dict[str, Any]:
    """Django's settings for `postgresql://user:password@host:port/name?option=…`, or SQLite in WAL mode."""
    value = text(name, default="")
    if not value:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(sqlite),
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA cache_size=-16000;",
            },
        }
    parts, port = urlsplit(value), _port(value)
    if parts.scheme not in ("postgres", "postgresql") or not parts.path.strip("/") or port is None:
        refuse(name, _without_password(value), "postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": port,
        # A connection lasts as long as a request, so they come from a pool.
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 20, "timeout": 10}, **dict(parse_qsl(parts.query))},
    }


def require(why: str, names: Sequence[str]) -> None:
    """Refuse to start where a setting needs others that are not set."""
    for name in names:
        if not text(name, default=""):
            raise ImproperlyConfigured(f"{why} needs {name}, which is not set")


def load_dotenv(file: Path) -> None:
    """Take `NAME=value` lines as defaults: what the environment already has wins."""
    if not file.is_file():
        return
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, eq, value = line.partition("=")
        if not eq:
            raise ImproperlyConfigured(f"{file}, line {number}: expected NAME=value")
        os.environ.setdefault(name.strip().removeprefix("export ").strip(), value.strip().strip("'\""))


def _is_url(value: str, schemes: Sequence[str]) -> bool:
    parts = urlsplit(value)
    plain = not any(c.isspace() for c in value)
    return (
        plain and parts.scheme in schemes and bool(parts.netloc or parts.scheme == "unix") and _port(value) is not None
    )


def _port(url: str) -> str | None:
    """The URL's port, empty where it names none; None where it is not one."""
    try:
        return str(urlsplit(url).port or "")
    except ValueError:
        return None


def _without_password(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//…@", url)


def refuse(name: str, value: str, expected: str) -> NoReturn:
    """Stop the start: this value of the variable is not good."""
    raise ImproperlyConfigured(f"{name}={value!r}: expected {expected}")
