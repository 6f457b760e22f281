"""Real services for tests: a Redis and a PostgreSQL of their own, on free ports, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class Service:
    """A server process that can be stopped and started again on its port."""

    def __init__(
        self, command: list[str], port: int, user: str | None = None, stop_signal: int = signal.SIGTERM
    ) -> None:
        self.command, self.port, self._user, self._stop_signal = command, port, user, stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            user=self._user,
            start_new_session=True,
        )
        wait_for_port(self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(self._stop_signal)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)  # PostgreSQL's immediate shutdown
                self._process.wait(20)
            self._process = None

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def restart(self) -> None:
        self.stop()
        self.start()


@contextlib.contextmanager
def redis_server() -> Iterator[Service]:
    """`service.port` serves Redis; nothing is persisted."""
    port = free_port()
    command = [_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    service = Service(command, port)
    service.start()
    try:
        yield service
    finally:
        service.stop()


@contextlib.contextmanager
def postgres_server() -> Iterator[Service]:
    """`service.port` serves PostgreSQL to the user postgres without a password."""
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="sidechat-pg-") as folder:
        if user:
            shutil.chown(folder, user)
        data, port = Path(folder) / "data", free_port()
        init = [_program("initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"]
        subprocess.run(init, check=True, user=user, stdout=subprocess.DEVNULL, cwd=folder)
        options = [
            "-p",
            str(port),
            "-k",
            folder,
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "max_connections=300",
            "-c",
            "fsync=off",
        ]
        service = Service([_program("postgres"), "-D", str(data), *options], port, user, signal.SIGINT)
        service.start()
        try:
            yield service
        finally:
            service.stop()


def create_database(server: Service, name: str) -> str:
    """The URL of a fresh database."""
    import psycopg

    end = time.monotonic() + 30
    while True:
        try:
            with psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", autocommit=True) as c:
                c.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
            return f"postgresql://postgres@127.0.0.1:{server.port}/{name}"
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def wait_for_port(port: int, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > end:
            raise TimeoutError(f"nothing listens on port {port}")
        time.sleep(0.05)


def _program(name: str) -> str:
    """The path of a server program; PostgreSQL's are kept out of the PATH by Debian."""
    places = [shutil.which(name), *sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), reverse=True)]
    found = next((place for place in places if place), None)
    assert found, f"{name} is not installed"
    return found
