"""Clients as thin as they can be: what they measure is the server, and the provider beneath it."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

_STAMP = re.compile(rb"t(\d{16})(?!\d)")


class Stamps:
    """Latencies in ms of the tokens of one stream, from the send times in them; one that comes again counts once."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self._last = 0

    def take(self, data: bytes) -> None:
        now = time.time_ns() // 1000
        new = [sent for sent in map(int, _STAMP.findall(data)) if sent > self._last]
        self._last = max([self._last, *new])
        self.latencies += [(now - sent) / 1000 for sent in new]


class Floor(asyncio.Protocol):
    """One stream read from the provider itself; `done` is set at its end."""

    def __init__(self, url: str, model: str, stamps: Stamps) -> None:
        self.stamps = stamps
        self.done = asyncio.get_running_loop().create_future()
        body = b'{"model":"%b","stream":true,"messages":[{"role":"user","content":"go"}]}' % model.encode()
        path = urlsplit(url).path.encode()
        self._request = b"POST %b/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
            path,
            len(body),
            body,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.stamps.take(data)
        if b"[DONE]" in data and not self.done.done():
            self.done.set_result(None)
            self._transport.close()


class Socket(asyncio.Protocol):
    """A WebSocket that reads whole text frames and answers pings."""

    def __init__(self, path: str, host: str, token: str, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self._buffer = b""
        self._is_open = False
        self.opened = asyncio.get_running_loop().create_future()
        key = base64.b64encode(os.urandom(16)).decode()
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n"
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request.encode())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open:
            head, found, self._buffer = self._buffer.partition(b"\r\n\r\n")
            if not found:
                self._buffer = head
                return
            assert b" 101 " in head, head
            self._is_open = True
            self.opened.set_result(None)
        while (frame := self._frame()) is not None:
            opcode, payload = frame
            if opcode == 1:
                self._receive(payload)
            elif opcode == 9:
                self._transport.write(b"\x8a" + bytes([0x80 | len(payload)]) + bytes(4) + payload)

    def close(self) -> None:
        self._transport.abort()

    def _frame(self) -> tuple[int, bytes] | None:
        data = self._buffer
        if len(data) < 2:
            return None
        length, start = data[1] & 127, 2
        if length == 126:
            length, start = int.from_bytes(data[2:4], "big"), 4
        elif length == 127:
            length, start = int.from_bytes(data[2:10], "big"), 10
        if len(data) < start + length:
            return None
        self._buffer = data[start + length :]
        return data[0] & 15, data[start : start + length]
