"""Foreign logs for tests, in memory: a header and whole turns of one question and one answer."""

from __future__ import annotations

import io
from typing import Any

from sidechat_web.core import jsontext

T0 = 1_780_000_000_000


def header(log_id: str, **fields: Any) -> bytes:
    record = {"type": "session", "version": 0, "id": log_id, "createdAt": T0, "cwd": "/home/ann/shop"}
    return text({**record, "delegationDepth": 0, **fields})


def turn(number: int, first: int, words: str = "hello", **usage: int) -> list[bytes]:
    """One turn, whose eight events begin at seq `first`."""
    where = {"turn": number, "step": 1}
    source = {"kind": "model", "provider": "acme", "model": "small"}
    content = [{"type": "text", "text": f"{words}?"}]
    message = {"role": "assistant", "content": [{"type": "text", "text": words}], "source": source, "id": f"a{first}"}
    config = {"header": {"config": {"provider": "acme", "model": "small"}, "system": "Be brief."}, "reason": "initial"}
    return [
        event(first, "turn/start", {"turn": number}),
        event(first + 1, "step/start", where),
        event(
            first + 2,
            "user/message",
            {"content": content, "source": {"kind": "user"}, "role": "user", "id": f"u{first}"},
            surfaceOp="append",
        ),
        event(first + 3, "request/header", config),
        event(first + 4, "assistant/chunk", {**where, "chunk": {"type": "text-delta", "index": 0, "text": words}}),
        event(
            first + 5,
            "assistant/message",
            {**where, "message": message, **({"usage": usage} if usage else {})},
            surfaceOp="append",
        ),
        event(first + 6, "step/end", where),
        event(first + 7, "turn/end", {"turn": number, "reason": {"kind": "completed"}}),
    ]


def event(seq: int, kind: str, data: Any, **marks: Any) -> bytes:
    return text({"type": kind, "seq": seq, "time": T0 + seq, "data": data, **marks})


def text(record: dict[str, Any]) -> bytes:
    return jsontext.dump_bytes(record)


def log(head: bytes, *turns: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in [head, *(line for lines in turns for line in lines)])


def file(data: bytes, name: str = "session.jsonl") -> tuple[str, io.BytesIO]:
    return name, io.BytesIO(data)
