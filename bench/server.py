"""The product as a process for a measurement: on a data directory of its own, on a free port."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench.record import log
from bench.start import ROOT, free_port, resident_mb


class Server:
    def __init__(self, process: subprocess.Popen[bytes], port: int, data_dir: Path) -> None:
        self.pid, self.port, self._data_dir = process.pid, port, data_dir

    @property
    def token(self) -> str:
        return (self._data_dir / "api-token").read_text().strip()

    @property
    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_mb(self) -> float:
        return resident_mb(self.pid)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(Client(self).json, method, path, body)


class Client:
    """One kept connection, as a browser has it."""

    def __init__(self, at: Server) -> None:
        self._connection = HTTPConnection("127.0.0.1", at.port, timeout=600)
        self._headers = {"Authorization": f"Bearer {at.token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status < 300, f"{method} {path}: {response.status} {answer[:200]!r}"
        return answer

    def json(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.call(method, path, json.dumps({} if body is None else body).encode()))

    def imported(self, name: str, events: int) -> str:
        """The id of a new session out of a log of about `events` events."""
        answer = json.loads(self.call("POST", "/api/import", b"".join(log(name, events))))
        return str(answer["sessions"][0]["id"])


@contextmanager
def server(provider: str, **environment: str) -> Iterator[Server]:
    """A server whose `custom` provider is at `provider`."""
    port = free_port()
    with tempfile.TemporaryDirectory() as data_dir:
        env = {
            **os.environ,
            "SIDECHAT_DATA_DIR": data_dir,
            "SIDECHAT_OPENAI_BASE_URL": provider,
            "SIDECHAT_LOCAL_MODEL": "off",
            **environment,
        }
        command = [sys.executable, "manage.py", "serve", "--migrate", "--port", str(port)]
        with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL) as process:
            try:
                _wait(port, Path(data_dir))
                yield Server(process, port, Path(data_dir))
            finally:
                process.terminate()


@contextmanager
def provider(url: str) -> Iterator[str]:
    """`url`, or where that is empty the base URL of our own provider, which runs meanwhile."""
    if url:
        yield url
        return
    command = [sys.executable, "-m", "bench.provider"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _wait(port: int, data_dir: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                if (data_dir / "api-token").exists():
                    return
        except (OSError, urllib.error.HTTPError):
            pass
        assert time.monotonic() < end, "the server did not start"
        time.sleep(0.05)
