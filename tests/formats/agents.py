"""Session files of other agents for tests: records as those programs write them."""

from __future__ import annotations

import io
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 6, 1, 12, tzinfo=UTC)


class ClaudeFile:
    """A Claude Code session; each method writes one record and returns its uuid."""

    def __init__(self, session: str = "11111111-aaaa-4bbb-8ccc-000000000001", **common: Any) -> None:
        self.lines: list[str] = []
        self.last: str | None = None
        self._numbers = itertools.count(1)
        self._common = {"sessionId": session, "cwd": "/home/ann/shop", "version": "2.1.37", "isSidechain": False}
        self._common |= common

    def record(self, kind: str, *, parent: str | None = "", **fields: Any) -> str:
        n = next(self._numbers)
        uuid = f"uuid-{n}"
        time = (START + timedelta(seconds=n)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"parentUuid": self.last if parent == "" else parent, **self._common, "type": kind, **fields}
        self.lines.append(json.dumps({**entry, "uuid": uuid, "timestamp": time}))
        self.last = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        return self.record("user", message={"role": "user", "content": content}, **fields)

    def result(self, call: str, content: Any = "done", **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content, **fields}])

    def answer(self, message: str, *blocks: dict[str, Any], stop: str | None = None, tokens: int = 5) -> str:
        """One record for each block, as the program writes them."""
        usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": tokens}
        for block in blocks:
            body = {"id": message, "role": "assistant", "model": "claude-opus-4-5", "content": [block], "usage": usage}
            uuid = self.record("assistant", message={**body, "stop_reason": stop})
        return uuid

    def raw(self, line: str) -> None:
        self.lines.append(line)

    def bytes(self, upto: int | None = None) -> bytes:
        return "".join(line + "\n" for line in self.lines[:upto]).encode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "c2lnbmF0dXJl"}


def call(call_id: str, name: str = "Read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def claude() -> ClaudeFile:
    """Two whole turns: one with thinking and two calls at once, one of talk."""
    file = ClaudeFile()
    file.raw(json.dumps({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}))
    file.user("What is in the shop?")
    file.answer("msg_1", thinking("Look first."), text("I look."), call("t1", path="a"), call("t2", path="b"))
    file.result("t1", "pears")
    file.result("t2", [text("plums")], is_error=True)
    file.answer("msg_2", text("Pears and plums."), stop="end_turn")
    file.record("system", subtype="turn_duration", durationMs=900)
    file.user("Thanks")
    file.answer("msg_3", text("You are welcome."), stop="end_turn")
    return file


class CodexFile:
    """A Codex session; each method writes one line."""

    def __init__(self, session: str = "0199aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee") -> None:
        self.lines: list[str] = []
        meta = {"id": session, "cwd": "/home/ann/shop", "cli_version": "0.120.0", "model_provider": "openai"}
        self.line("session_meta", {**meta, "base_instructions": {"text": "You are a coding agent."}})
        self.line("turn_context", {"model": "gpt-5.5-codex", "effort": "high", "cwd": "/home/ann/shop"})

    def line(self, kind: str, payload: dict[str, Any]) -> None:
        time = (START + timedelta(seconds=len(self.lines))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.lines.append(json.dumps({"timestamp": time, "type": kind, "payload": payload}))

    def event(self, kind: str, **fields: Any) -> None:
        self.line("event_msg", {"type": kind, **fields})

    def item(self, kind: str, **fields: Any) -> None:
        self.line("response_item", {"type": kind, **fields})

    def said(self, role: str, words: str) -> None:
        part = "output_text" if role == "assistant" else "input_text"
        self.item("message", role=role, content=[{"type": part, "text": words}])

    def cost(self) -> None:
        last = {"input_tokens": 120, "cached_input_tokens": 100, "output_tokens": 7, "reasoning_output_tokens": 2}
        self.event("token_count", info={"last_token_usage": last, "total_token_usage": last})

    def bytes(self, upto: int | None = None) -> bytes:
        return "".join(line + "\n" for line in self.lines[:upto]).encode()


def codex() -> CodexFile:
    """Two whole turns: one with reasoning and a call, one of talk."""
    file = CodexFile()
    file.event("task_started", turn_id="t1")
    file.said("developer", "<permissions instructions>Ask first.</permissions instructions>")
    file.said("user", "<environment_context><cwd>/home/ann/shop</cwd></environment_context>")
    file.said("user", "What is in the shop?")
    file.event("user_message", message="What is in the shop?")
    file.item("reasoning", summary=[{"type": "summary_text", "text": "Look first."}], encrypted_content="gAAAA")
    file.item("function_call", name="shell", call_id="c1", arguments='{"command":["ls"]}')
    file.cost()
    file.item("function_call_output", call_id="c1", output="pears")
    file.said("assistant", "Pears.")
    file.event("agent_message", message="Pears.")
    file.cost()
    file.event("task_complete", turn_id="t1")
    file.event("task_started", turn_id="t2")
    file.said("user", "Thanks")
    file.said("assistant", "You are welcome.")
    file.cost()
    file.event("task_complete", turn_id="t2")
    return file


CHAT = {
    "model": "acme-1",
    "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {}}}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is in there?"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Look first.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "pears"},
        {"role": "assistant", "content": "Pears."},
    ],
}


def chat(**changed: Any) -> bytes:
    return json.dumps({**CHAT, **changed}).encode()


def files(*contents: bytes) -> list[tuple[str, io.BytesIO]]:
    return [(f"{n}.jsonl", io.BytesIO(content)) for n, content in enumerate(contents)]
