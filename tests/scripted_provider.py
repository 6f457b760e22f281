"""A scripted provider that speaks Chat Completions and Messages: the model that ships with the tests.

What it answers is written in the last user message, so a test says what happens where it happens:

    [[say:TEXT]]      answer TEXT (else: "You said: …" with the message's first 60 characters)
    [[every:MS]]      one word every MS milliseconds (else: all at once)
    [[after:MS]]      wait before the first word  [[units]]    UTF-16 units instead of words, so that pairs are cut
    [[think:TEXT]]    reasoning first
    [[call:NAME {…}]] call a tool, once per marker, unless the last message is a tool's
    [[status:N]]      answer HTTP N                 [[flaky:K]]  429 for the first K requests with this text
    [[break]]         cut the connection halfway    [[length]]   finish with "length"
    [[overflow]]      refuse with a context overflow while the history is as long as at the first request
    [[hang]]          send half, then nothing       [[malformed]] lines of garbage halfway
    [[silent]]        never answer at all           [[bytes]]    bytes that are not UTF-8 halfway
    [[error]]         report an error at once       [[error:mid]] halfway, [[error:first]] before the first word
    [[refuse]]        finish as a content filter    [[unfinished]] end without saying why
    [[beat:MS]]       a comment every MS milliseconds, ten of them, before the first word

A message may also come from Sidechat itself: a request for a handback is answered with `handback` (settable, marks
included, those in the request count for nothing), by default the words of the last user message before it. Every
body is kept, byte for byte, in `bodies`.
Runs on its own thread and event loop, or as a script: `python -m tests.scripted_provider --port N`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

from .scripted_wires import Chat, Messages, Wire

_GARBAGE = ('data: {"choices": [{"delta":\n\n: a comment\n\n', "data: [1, 2]\n\ndata\n\nevent: ?\ndata: NaN\n\n")
_MODELS = [{"id": name, "object": "model", "type": "model"} for name in ("scripted", "scripted-2")]
_MARK = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]", re.S)


class ScriptedProvider:
    """`with ScriptedProvider() as p:` serves on `p.base_url` until the block ends."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.bodies: list[bytes] = []
        self.handback = ""
        self.refusal_words = ""  # of a refusal with a status
        self.models: Any = _MODELS
        self._failures: Counter[str] = Counter()  # by prompt
        self._lengths: dict[str, int] = {}  # of the history at a prompt's first request
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def forget(self) -> None:
        """Start afresh, as a test expects it."""
        self.bodies.clear()
        self._failures.clear()
        self._lengths.clear()
        self.handback = self.refusal_words = ""
        self.models = _MODELS

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._client, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        server.close()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head, re.I)
                body = await reader.readexactly(int(length[1]) if length else 0)
                await self._route(head.split(b" ", 2)[1].decode(), body, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _route(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path.partition("?")[0].endswith("/models"):
            return _json(writer, 200, {"object": "list", "data": self.models, "has_more": False})
        if not path.endswith(("/chat/completions", "/messages")):
            return _json(writer, 404, {"error": {"message": "no such path"}})
        self.bodies.append(body)
        request = json.loads(body)
        await self._complete(Messages(request) if path.endswith("/messages") else Chat(request), writer)

    async def _complete(self, wire: Wire, writer: asyncio.StreamWriter) -> None:
        marks = _MARK.findall(self.handback if "Write the handback" in wire.prompt else wire.prompt)
        script = dict(marks)
        if problem := wire.problem():
            return _json(writer, 400, wire.error(400, problem))
        if status := self._refusal(script, wire.prompt):
            words = self.refusal_words or f"scripted {status}"
            return _json(writer, status, wire.error(status, words), retry_after=status == 429)
        if "overflow" in script and self._overflows(wire.prompt, wire.size):
            return _json(writer, 400, wire.error(400, "This model's maximum context length is 10 tokens."))
        if "silent" in script:
            await asyncio.sleep(3600)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await self._wait(writer, script)
        await self._answer(wire, marks, script, writer)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _wait(self, writer: asyncio.StreamWriter, script: dict[str, str]) -> None:
        await asyncio.sleep(float(script.get("after") or 0) / 1000)
        for _ in range(10 if "beat" in script else 0):
            _chunks(writer, [": still here\n\n"])
            await asyncio.sleep(float(script["beat"]) / 1000)

    async def _answer(
        self, wire: Wire, marks: list[tuple[str, str]], script: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        if script.get("error") == "":
            return _chunks(writer, wire.broken("scripted error"))
        _chunks(writer, wire.begin())
        if script.get("error") == "first":
            return _chunks(writer, [*wire.open(), *wire.broken("scripted error")])
        if script.get("think"):
            _chunks(writer, wire.think(script["think"]))
        calls = [] if wire.after_tool else [argument for name, argument in marks if name == "call"]
        for index, call in enumerate(calls):
            name, _, arguments = call.partition(" ")
            _chunks(writer, wire.call(name, arguments, f"call_{len(self.bodies)}_{index}"))
            _chunks(writer, _GARBAGE if "malformed" in script else ())
        text = self._text(wire, script)
        if not calls and not await self._words(wire, text, script, writer):
            return
        if "unfinished" not in script:
            finish = "calls" if calls else next((mark for mark in ("length", "refuse") if mark in script), "stop")
            _chunks(writer, wire.end(finish, text))

    async def _words(self, wire: Wire, text: str, script: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        """Say the words; False where the script ended the answer halfway."""
        words = _units(text) if "units" in script else re.findall(r"\s*\S+|\s+$", text) or [text]
        for k, word in enumerate(words):
            if k == len(words) // 2 and not await self._halfway(wire, script, writer):
                return False
            _chunks(writer, wire.word(word))
            if script.get("every"):
                await writer.drain()
                await asyncio.sleep(float(script["every"]) / 1000)
        return True

    async def _halfway(self, wire: Wire, script: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        if "break" in script:
            await writer.drain()
            writer.transport.abort()
            raise ConnectionError
        if "hang" in script:
            await asyncio.sleep(3600)
        if "malformed" in script:
            _chunks(writer, _GARBAGE)
        if "bytes" in script:
            _chunk(writer, b'data: {"x": "\xff\xfe"}\n\n')
        if script.get("error") == "mid":
            _chunks(writer, wire.broken("scripted error"))
            return False
        return True

    def _refusal(self, script: dict[str, str], prompt: str) -> int:
        if "status" in script:
            return int(script["status"])
        if "flaky" in script and self._failures[prompt] < int(script["flaky"]):
            self._failures[prompt] += 1
            return 429
        return 0

    def _overflows(self, prompt: str, messages: int) -> bool:
        return messages >= self._lengths.setdefault(prompt, messages)

    def _text(self, wire: Wire, script: dict[str, str]) -> str:
        if "Write the handback" in wire.prompt:
            asked = [text for text in wire.said if not text.startswith("[")]
            return _MARK.sub("", self.handback) or "Conclusion: " + (asked[-1] if asked else "nothing was asked") + "."
        return script.get("say") or "You said: " + _MARK.sub("", wire.prompt).strip()[:60]


def _units(text: str) -> list[str]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(data), 2)]


def _chunks(writer: asyncio.StreamWriter, texts: Iterable[str]) -> None:
    for text in texts:
        _chunk(writer, text.encode())


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _json(writer: asyncio.StreamWriter, status: int, body: dict[str, Any], *, retry_after: bool = False) -> None:
    data = json.dumps(body).encode()
    extra = b"retry-after: 0\r\n" if retry_after else b""
    head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % (status, len(data))
    writer.write(head + extra + b"\r\n" + data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    with ScriptedProvider(parser.parse_args().port) as provider:
        print(provider.base_url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
