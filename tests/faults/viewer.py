"""A client that follows sessions by the socket protocol and keeps what it has seen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

import websockets


class Viewer:
    """One session as one client sees it: events by seq, streaming blocks by offset, breaches of the protocol.

    `cut()` drops the connection; the viewer reconnects by itself, to the server at `url`, and resumes after its last
    seq. What it shows of a block stays; what comes again must be the same. `times` are those of `time.monotonic`.
    """

    def __init__(self, url: str, session_id: str, token: str) -> None:
        self.url, self.session_id, self._token = url, session_id, token
        self.events: dict[int, dict[str, Any]] = {}
        self.times: dict[int, float] = {}
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

    def cut(self) -> None:
        """Drop the connection without a closing handshake."""
        if self._socket is not None:
            self._socket.transport.abort()

    @property
    def seq(self) -> int:
        """The last one seen."""
        return self._last

    @property
    def log(self) -> list[dict[str, Any]]:
        """The events seen, in the order in which they came."""
        return list(self.events.values())

    async def _follow(self) -> None:
        while True:
            try:
                async with self._connect() as socket:
                    self._socket, self._first = socket, True
                    self.connects += 1
                    async for raw in socket:
                        self._frame(str(raw))
            except (OSError, websockets.WebSocketException, TimeoutError):
                await asyncio.sleep(0.05)

    def _connect(self) -> websockets.connect:
        where = self.url.replace("http", "ws", 1)
        return websockets.connect(
            f"{where}/ws/sessions/{self.session_id}/?as=json&after={self._last}",
            additional_headers={"Authorization": f"Bearer {self._token}"},
            max_size=None,
            max_queue=None,
            open_timeout=5,
            proxy=None,
        )

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
        self.times[event["seq"]] = time.monotonic()
        if event["type"] == "assistant/message" and not event["data"].get("interrupted"):
            self._settle(event["data"])

    def _settle(self, data: dict[str, Any]) -> None:
        """What was shown of a step must be what its message says, as far as it came."""
        for index, block in enumerate(data["message"]["content"]):
            shown = self.blocks.get((data["turn"], data["step"], index), "")
            if block["type"] in ("text", "reasoning") and not block["text"].startswith(shown):
                self.breaches.append(f"{shown!r} was shown, {block['text']!r} is logged")

    def _delta(self, frame: dict[str, Any]) -> None:
        key, at, text = (frame["turn"], frame["step"], frame["index"]), frame["offset"], frame["text"]
        have = self.blocks.get(key, "")
        again = len(have) - at
        if again < 0:
            self.breaches.append(f"a hole in {key}: {len(have)} characters, next at {at}")
        elif have[at : at + len(text)] != text[:again]:
            self.breaches.append(f"{have[at:]!r} of {key} came again as {text!r}")
        else:
            self.blocks[key] = have + text[again:]
