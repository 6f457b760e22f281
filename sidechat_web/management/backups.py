"""Backups: the database as it was at one moment, in one file, without stopping anybody.

A backup is a Zstandard-compressed tar: `manifest.json`, the database (`database.sqlite3`, or `database.dump` of
pg_dump), and where it was asked for the files that hold keys. Without these it gives nobody a provider's key.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

import zstandard
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import presence
from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.models import Runner

FORMAT: Final = 1
KEY_FILES: Final = ("secret-key", ".env", "mcp.json")
_DATABASE: Final = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}


class BackupError(SidechatError):
    """A backup that could not be made or restored, in a sentence; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself. `migrations` are the applied ones, as `app.name`."""

    format: int
    made_at: int
    engine: str
    migrations: list[str]
    keys: bool

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """Raises BackupError."""
        try:
            found = cls(**json.loads(data))
        except (ValueError, TypeError):
            raise BackupError("this is not a backup of Sidechat") from None
        if found.format != FORMAT:
            raise BackupError(f"this backup has format {found.format}; this Sidechat reads format {FORMAT}")
        return found


def write(target: Path, *, with_keys: bool = False) -> Manifest:
    """Make a backup at `target`: whole or not at all, readable by its owner alone. Raises BackupError."""
    manifest = Manifest(FORMAT, now_ms(), connection.vendor, _applied(), with_keys)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as work:
            snapshot = Path(work) / _DATABASE[connection.vendor]
            _dump(snapshot)
            with _packing(part) as tar:
                _add_bytes(tar, "manifest.json", json.dumps(asdict(manifest)).encode())
                tar.add(snapshot, snapshot.name)
                for file in _key_files() if with_keys else ():
                    tar.add(file, f"keys/{file.name}")
        part.replace(target)
    except OSError as e:
        raise BackupError(f"the backup could not be written: {e}") from None
    finally:
        part.unlink(missing_ok=True)
    return manifest


def restore(source: Path) -> tuple[Manifest, Path | None]:
    """Put a backup in place of the database; returns what it says, and where the former SQLite database is kept.

    Raises BackupError, having changed nothing, where a server runs, or the backup is broken, of another database
    engine, or newer than this Sidechat.
    """
    if living := _running():
        raise BackupError(f"stop the server and the workers first; running: {', '.join(sorted(living))}")
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR, prefix=".restore-") as work:
        manifest = _unpack(source, Path(work))
        if manifest.engine != connection.vendor:
            raise BackupError(f"this is a backup of {manifest.engine}, and the database here is {connection.vendor}")
        if unknown := sorted(set(manifest.migrations) - _known()):
            raise BackupError(f"this backup is newer than this Sidechat, which does not know {unknown[0]}")
        database = Path(work) / _DATABASE[manifest.engine]
        former = _put(database)
        for file in (Path(work) / "keys").glob("*"):
            file.chmod(0o600)
            file.replace(settings.DATA_DIR / file.name)
    return manifest, former


def _running() -> set[str]:
    """The processes that run turns on this database; none where it has no tables yet."""
    return presence.alive() if Runner._meta.db_table in connection.introspection.table_names() else set()


# --- the file ---


@contextmanager
def _packing(part: Path) -> Iterator[tarfile.TarFile]:
    with (
        os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|") as tar,
    ):
        yield tar
    with part.open("rb") as written:
        os.fsync(written.fileno())


def _unpack(source: Path, work: Path) -> Manifest:
    """The manifest; the rest stands in `work`. Only the names that a backup has are taken out."""
    wanted = {"manifest.json", *_DATABASE.values(), *(f"keys/{name}" for name in KEY_FILES)}
    (work / "keys").mkdir()
    try:
        with source.open("rb") as file, _reading(file) as tar:
            for member in tar:
                if member.name in wanted and member.isfile() and (content := tar.extractfile(member)):
                    with (work / member.name).open("wb") as out:
                        shutil.copyfileobj(content, out, 1 << 20)
        manifest = Manifest.parse((work / "manifest.json").read_bytes())
        if not (work / _DATABASE[manifest.engine]).is_file():
            raise KeyError(manifest.engine)
    except FileNotFoundError as e:
        raise BackupError(f"there is no backup here: {e.filename}") from None
    except (OSError, KeyError, EOFError, tarfile.TarError, zstandard.ZstdError) as e:
        raise BackupError(f"this backup is broken, or none: {e}") from None
    return manifest


@contextmanager
def _reading(file: IO[bytes]) -> Iterator[tarfile.TarFile]:
    with (
        zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        yield tar
        plain.read()  # to the end, where the checksum stands


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _key_files() -> list[Path]:
    return [file for name in KEY_FILES if (file := settings.DATA_DIR / name).is_file()]


# --- the databases ---


def _dump(snapshot: Path) -> None:
    """The database as it is at one moment; writers go on."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(_sqlite_file())) as source, closing(sqlite3.connect(snapshot)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    else:
        _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={snapshot}", _conninfo())


def _put(database: Path) -> Path | None:
    """Put the unpacked database in place; returns where the former one is kept, if it is a file."""
    if connection.vendor == "sqlite":
        return _put_sqlite(database)
    _put_postgresql(database)
    return None


def _put_sqlite(database: Path) -> Path | None:
    """Swap the files; what stood there is kept beside it, with the parts that belong to it."""
    with closing(sqlite3.connect(database)) as restored:
        try:
            [(verdict,)] = restored.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.DatabaseError as e:
            verdict = str(e)
    if verdict != "ok":
        raise BackupError(f"the database in this backup is damaged: {verdict}")
    connection.close()
    file = Path(_sqlite_file())
    former = file.with_name(f"{file.name}.before-restore-{now_ms()}") if file.exists() else None
    for suffix in ("-shm", "-wal", ""):
        part = Path(f"{file}{suffix}")
        if former is not None and part.exists():
            part.replace(f"{former}{suffix}")
    database.replace(file)
    return former


def _put_postgresql(dump: Path) -> None:
    connection.close()
    options = ("--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error")
    _run("pg_restore", *options, f"--dbname={_conninfo()}", str(dump))


def _run(program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL's client. The password goes by the environment."""
    secret = {"PGPASSWORD": password} if (password := settings.DATABASES["default"]["PASSWORD"]) else {}
    try:
        done = subprocess.run([program, *arguments], env={**os.environ, **secret}, capture_output=True, text=True)
    except FileNotFoundError:
        raise BackupError(f"{program} is missing: install PostgreSQL's client programs") from None
    if done.returncode:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-500:]}")


def _conninfo() -> str:
    from psycopg.conninfo import make_conninfo

    database: dict[str, Any] = settings.DATABASES["default"]
    options = {name: value for name, value in database["OPTIONS"].items() if name != "pool"}
    named = {"dbname": database["NAME"], "user": database["USER"], "host": database["HOST"], "port": database["PORT"]}
    return make_conninfo(**{name: value for name, value in {**named, **options}.items() if value})


def _sqlite_file() -> str:
    return str(connection.settings_dict["NAME"])


def _applied() -> list[str]:
    return sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations)


def _known() -> set[str]:
    return {".".join(key) for key in MigrationLoader(None, ignore_no_migrations=True).disk_migrations}
