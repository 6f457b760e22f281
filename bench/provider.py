"""A Chat Completions server that streams as its model name says, each token the time at which it was sent.

    python -m bench.provider --port N

`fake-<ms to first token>-<tokens>-<ms between tokens>`; a token is `t<unix µs> `. Prints its base URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODEL = re.compile(r"fake-(\d+)-(\d+)-([\d.]+)")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"content-length: (\d+)", head, re.I)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if b"/chat/completions" in head:
                await stream(json.loads(body)["model"], writer)
            else:
                answer = b'{"object":"list","data":[]}'
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(model: str, writer: asyncio.StreamWriter) -> None:
    plan = _MODEL.search(model)
    first, tokens, every = map(float, plan.groups() if plan else (0, 50, 20))
    writer.write(_HEAD)
    loop = asyncio.get_running_loop()
    due = loop.time() + first / 1000
    for _ in range(int(tokens)):
        await asyncio.sleep(due - loop.time())
        due += every / 1000
        _event(writer, b'{"choices":[{"index":0,"delta":{"content":"t%d "},"finish_reason":null}]}' % now_us())
    _event(writer, b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    usage = {"prompt_tokens": 10, "completion_tokens": int(tokens)}
    _event(writer, json.dumps({"choices": [], "usage": usage}).encode())
    _event(writer, b"[DONE]")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def now_us() -> int:
    return time.time_ns() // 1000


def _event(writer: asyncio.StreamWriter, data: bytes) -> None:
    event = b"data: %b\n\n" % data
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=0)
    server = await asyncio.start_server(serve, "127.0.0.1", options.parse_args().port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
