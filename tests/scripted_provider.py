"""A scripted Chat Completions server: the model that ships with the tests.

What it answers is written in the last user message, so a test says what happens where it happens:

    [[say:TEXT]]      answer TEXT (else: "You said: …" with the message's first 60 characters)
    [[every:MS]]      one word every MS milliseconds (else: all at once)
    [[after:MS]]      wait before the first word
    [[think:TEXT]]    reasoning first
    [[call:NAME {…}]] call a tool, once per marker, unless the last message is a tool's
    [[status:N]]      answer HTTP N                 [[flaky:K]]  429 for the first K requests with this text
    [[break]]         cut the connection halfway    [[length]]   finish with "length"
    [[overflow]]      refuse with a context overflow while the history is as long as at the first request
    [[hang]]          send half, then nothing       [[malformed]] a line of garbage halfway

A message may also come from Sidechat itself: a request for a handback is answered with `handback` (settable),
by default the words of the last user message before it. Every body is kept, byte for byte, in `bodies`.
Runs on its own thread and event loop, or as a script: `python -m tests.scripted_provider --port N`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import threading
from collections import Counter
from typing import Any, Self

_MARK = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]", re.S)


class ScriptedProvider:
    """`with ScriptedProvider() as p:` serves on `p.base_url` until the block ends."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.bodies: list[bytes] = []
        self.handback = ""
        self._failures: Counter[str] = Counter()
        self._lengths: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

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
        if path.endswith("/models"):
            names = ["scripted", "scripted-2"]
            return _json(writer, 200, {"object": "list", "data": [{"id": n, "object": "model"} for n in names]})
        if not path.endswith("/chat/completions"):
            return _json(writer, 404, {"error": {"message": "no such path"}})
        self.bodies.append(body)
        await self._complete(json.loads(body), writer)

    async def _complete(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        prompt = next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), "")
        marks = _MARK.findall(prompt)
        script = dict(marks)
        after_tool = request["messages"][-1]["role"] == "tool"
        if status := self._refusal(script, prompt):
            return _json(writer, status, {"error": {"message": f"scripted {status}"}}, retry_after=status == 429)
        if "overflow" in script and self._overflows(prompt, len(request["messages"])):
            return _json(writer, 400, {"error": {"message": "This model's maximum context length is 10 tokens."}})
        text = self._text(request["messages"], script, prompt)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head)
        await asyncio.sleep(float(script.get("after") or 0) / 1000)
        if script.get("think"):
            _event(writer, {"delta": {"reasoning_content": script["think"]}})
        calls = [] if after_tool else [argument for name, argument in marks if name == "call"]
        for index, call in enumerate(calls):
            _call(writer, index, call, len(self.bodies))
        if not calls:
            await self._words(writer, text, script)
        finish = "tool_calls" if calls else "length" if "length" in script else "stop"
        _event(writer, {"delta": {}, "finish_reason": finish})
        _chunk(writer, "data: " + json.dumps({"choices": [], "usage": _usage(request, text)}) + "\n\n")
        _chunk(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _words(self, writer: asyncio.StreamWriter, text: str, script: dict[str, str]) -> None:
        words = re.findall(r"\s*\S+|\s+$", text) or [text]
        for k, word in enumerate(words):
            if k == len(words) // 2:
                if "break" in script:
                    await writer.drain()
                    writer.transport.abort()
                    raise ConnectionError
                if "hang" in script:
                    await asyncio.sleep(3600)
                if "malformed" in script:
                    _chunk(writer, 'data: {"choices": [{"delta":\n\n: a comment\n\n')
            _event(writer, {"delta": {"content": word}})
            if script.get("every"):
                await writer.drain()
                await asyncio.sleep(float(script["every"]) / 1000)

    def _refusal(self, script: dict[str, str], prompt: str) -> int:
        if "status" in script:
            return int(script["status"])
        if "flaky" in script and self._failures[prompt] < int(script["flaky"]):
            self._failures[prompt] += 1
            return 429
        return 0

    def _overflows(self, prompt: str, messages: int) -> bool:
        return messages >= self._lengths.setdefault(prompt, messages)

    def _text(self, messages: list[dict[str, Any]], script: dict[str, str], prompt: str) -> str:
        if "Write the handback" in prompt:
            asked = [m["content"] for m in messages if m["role"] == "user" and not m["content"].startswith("[")]
            return self.handback or "Conclusion: " + (asked[-1] if asked else "nothing was asked") + "."
        return script.get("say") or "You said: " + _MARK.sub("", prompt).strip()[:60]


def _call(writer: asyncio.StreamWriter, index: int, call: str, serial: int) -> None:
    name, _, arguments = call.partition(" ")
    function = {"name": name, "arguments": ""}
    first = {"index": index, "id": f"call_{serial}_{index}", "type": "function", "function": function}
    _event(writer, {"delta": {"tool_calls": [first]}})
    half = len(arguments) // 2
    for part in (arguments[:half], arguments[half:]):
        _event(writer, {"delta": {"tool_calls": [{"index": index, "function": {"arguments": part}}]}})


def _usage(request: dict[str, Any], text: str) -> dict[str, Any]:
    prompt = len(json.dumps(request["messages"])) // 4
    cached = max(0, prompt - 40)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": max(1, len(text) // 4),
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _event(writer: asyncio.StreamWriter, choice: dict[str, Any]) -> None:
    _chunk(writer, "data: " + json.dumps({"choices": [{"index": 0, "finish_reason": None, **choice}]}) + "\n\n")


def _chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
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
