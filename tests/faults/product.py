"""The product as a process, driven from outside: start, kill, restart, and calls of its API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.services import free_port

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """One `manage.py worker` beside a product's web processes."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self.env = product.env
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        with (self._product.data_dir / "worker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "worker"],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Product:
    """One server on a data directory of its own; `kill()` is a `kill -9` of its process group."""

    def __init__(self, data_dir: Path, provider_url: str = "", **environment: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.env = {
            **{k: v for k, v in os.environ.items() if k not in ("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL")},
            "SIDECHAT_DATA_DIR": str(data_dir),
            "SIDECHAT_LOCAL_MODEL": "off",
            **environment,
        }
        if provider_url:
            self.env |= {"SIDECHAT_OPENAI_BASE_URL": provider_url, "SIDECHAT_DEFAULT_MODEL": "custom/scripted"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.manage("migrate", "-v0")
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = [sys.executable, "manage.py", "serve", "--port", str(self.port)]
        log = (self.data_dir / "server.log").open("ab")
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        wait_for(self._answers, 30, lambda: f"the server did not start:\n{self.log()[-3000:]}")

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        """SIGTERM, as a service manager sends it; returns the exit status."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(30)
        self._process = None
        return status

    def log(self) -> str:
        return (self.data_dir / "server.log").read_text(errors="replace")

    def manage(self, *arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command of manage.py; `typed` is its standard input."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            input=typed,
            check=arguments[0] != "check_logs",
        )

    @property
    def token(self) -> str:
        return (self.data_dir / "api-token").read_text().strip()

    def call(self, method: str, path: str, body: Any = None, *, timeout: float = 30, **headers: str) -> tuple[int, Any]:
        """Status and decoded body; raises OSError where the server is gone."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read() or b"null")

    def events(self, session_id: str, **query: int) -> list[dict[str, Any]]:
        """The whole effective log."""
        out: list[dict[str, Any]] = []
        after = -1
        while True:
            extra = "".join(f"&{k}={v}" for k, v in query.items())
            _, page = self.call("GET", f"/api/sessions/{session_id}/events?after={after}&limit=1000{extra}")
            out += page["events"]
            if page["next"] is None:
                return out
            after = page["next"]

    def wait_idle(self, *session_ids: str, seconds: float = 60) -> None:
        def idle() -> bool:
            return all(  # the queue first: what left it has opened its turn
                not self.call("GET", f"/api/sessions/{sid}/queue")[1]["items"]
                and self.call("GET", f"/api/sessions/{sid}")[1]["status"] == "idle"
                for sid in session_ids
            )

        wait_for(idle, seconds, lambda: f"not idle after {seconds} s: {session_ids}")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the server ended:\n{self.log()[-3000:]}")
        try:
            with urllib.request.urlopen(self.url + "/healthz", timeout=2) as response:
                ready = self.env.get("SIDECHAT_LOCAL_MODE") == "off" or (self.data_dir / "api-token").exists()
                return bool(response.status == 200) and ready
        except OSError:
            return False


def wait_for(condition: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(why())
        time.sleep(0.05)
