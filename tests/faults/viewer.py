"""A client that follows sessions by the socket protocol and keeps what it has seen."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import websockets


class Viewer:
    """One session as one client sees it: events by seq, streaming blocks by offset, breaches of the protocol.

    `cut()` drops the connection; the viewer reconnects by itself and resumes after its last seq.
    """

    def __init__(self, url: str, session_id: str, token: str) -> None:
        self.url = f"{url.replace('http', 'ws', 1)}/ws/sessions/{session_id}/?as=json"
        self.session_id, self._token = session_id, token
        self.events: dict[int, dict[str, Any]] = {}
        self.blocks: dict[tuple[int, int, int], str] = {}
        self.frames: list[str] = []
        self.status = ""
        self.breaches: list[str] = []
        self.connects = 0
        self._last = -1
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Viewer:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def cut(self) -> None:
        """Drop the connection without a closing handshake."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def _follow(self) -> None:
        while True:
            try:
                header = {"Authorization": f"Bearer {self._token}"}
                async with websockets.connect(
                    f"{self.url}&after={self._last}", additional_headers=header, max_size=None, open_timeout=5
                ) as socket:
                    self._socket, self._first = socket, True
                    self.connects += 1
                    self.blocks.clear()
                    async for raw in socket:
                        self._frame(str(raw))
            except (OSError, websockets.WebSocketException, TimeoutError):
                await asyncio.sleep(0.05)

    def _frame(self, raw: str) -> None:
        self.frames.append(raw)
        frame = json.loads(raw)
        kind = frame["t"]
        if self._first and kind != "hello":
            self.breaches.append(f"the first frame is {kind}, not hello")
        self._first = False
        match kind:
            case "hello" | "status":
                self.status = frame["status"]
            case "event":
                self._event(frame["event"])
            case "delta":
                self._delta(frame)

    def _event(self, event: dict[str, Any]) -> None:
        if event["seq"] <= self._last:
            self.breaches.append(f"event {event['seq']} came after {self._last}")
        self._last = event["seq"]
        self.events[event["seq"]] = event

    def _delta(self, frame: dict[str, Any]) -> None:
        key = (frame["turn"], frame["step"], frame["index"])
        have = self.blocks.get(key, "")
        if frame["offset"] == len(have):
            self.blocks[key] = have + frame["text"]
        elif frame["offset"] == 0 and frame["text"].startswith(have):
            self.blocks[key] = frame["text"]
        elif frame["offset"] > len(have):
            self.breaches.append(f"a hole in {key}: {len(have)} characters, next at {frame['offset']}")
