"""Codex CLI's session files: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`.

A line is `{timestamp, type, payload}`. The conversation is in its `response_item`s; `event_msg`s repeat it
for display, and mark turns, costs and the user going back. The oldest files have bare items after a first
line with the session's id.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from sidechat_web.core.events import Block, Json

from .header import Header
from .records import arguments, blocks, count, record, records, string, time_ms
from .retelling import COMPLETED, STOPPED, Retelling

PROGRAM: Final = "codex"
_KINDS: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_WENT_BACK: Final = "[The user went back to this point. What followed here before was left behind.]"
_INJECTED: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<skill",
    "<subagent_notification>",
    "<user_shell_command>",
    "# AGENTS.md instructions",
)
_NOT_LOGGED: Final = "(the provider ran this; its result is not in the log)"


def is_entry(entry: dict[str, Any]) -> bool:
    """Whether a record is one of this program's, or the first line of an old file."""
    if string(entry.get("type")) in _KINDS:
        return isinstance(entry.get("payload"), dict)
    return "type" not in entry and entry.keys() >= {"id", "timestamp", "instructions"}


class Codex:
    """See told.Teller."""

    program = PROGRAM

    def __init__(self) -> None:
        self.told = Retelling("openai", streamed=True)
        self.lost: Counter[str] = Counter({"the tool schemas": 1})
        self.last_word = False
        self._model = "unknown"
        self._marked = False  # turns are marked: a message inside one steers it
        self._met = False

    def identify(self, entry: dict[str, Any]) -> Header | None:
        meta = self._meta(entry)
        session = string(meta.get("id"))
        if not session:
            return None
        created = time_ms(meta.get("timestamp")) or time_ms(entry.get("timestamp")) or 0
        cwd, parent = string(meta.get("cwd")), string(meta.get("forked_from_id"))
        return Header(session, created, cwd if cwd.startswith("/") else None, parent_session=parent or None)

    def tell(self, entry: dict[str, Any]) -> None:
        self.told.at_time(time_ms(entry.get("timestamp")))
        payload = record(entry.get("payload"))
        match entry.get("type"):
            case "session_meta":
                self._begin(payload)
            case "turn_context":
                self._model = string(payload.get("model")) or self._model
            case "response_item":
                self._item(payload)
            case "event_msg":
                self._event(payload)
            case "compacted":
                self._compacted(payload)
            case None if "id" in entry:
                self._begin(entry)
            case _ if isinstance(entry.get("type"), str):
                self._item(entry)  # of an old file

    # -- records ---------------------------------------------------------------------------------

    def _meta(self, entry: dict[str, Any]) -> dict[str, Any]:
        if entry.get("type") == "session_meta":
            return record(entry.get("payload"))
        return entry if "type" not in entry else {}

    def _begin(self, meta: dict[str, Any]) -> None:
        """The first one is this session's; a fork repeats its parent's after it."""
        if self._met:
            return
        self._met = True
        self.told.provider = string(meta.get("model_provider")) or "openai"
        self.told.system = string(record(meta.get("base_instructions")).get("text")) or None
        if not self.told.system:
            self.lost["the system prompt"] += 1

    def _item(self, item: dict[str, Any]) -> None:
        kind = string(item.get("type"))
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            self._reasoning(item)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"):
            self._call(item, string(item.get("name")) or kind.removesuffix("_call"))
        elif kind.endswith("_output") and isinstance(item.get("call_id"), str):
            self._output(item)
        elif kind in ("web_search_call", "image_generation_call"):
            call_id = self._call(item, kind.removesuffix("_call"))
            self.told.result(f"{call_id}-result", call_id, blocks(_NOT_LOGGED))
        elif kind in ("compaction", "context_compaction", "compaction_summary"):
            self.lost["encrypted summaries"] += 1
        elif kind not in ("ghost_snapshot", "additional_tools", ""):
            self.lost[f"items of type {kind[:40]}"] += 1

    def _message(self, item: dict[str, Any]) -> None:
        said, role = self._content(item.get("content")), item.get("role")
        if role == "assistant":
            for block in said:
                self._block(block)
        elif said and (role != "user" or said[0]["text"].lstrip().startswith(_INJECTED)):
            self.told.context(self._id(item), said, {"plugin": PROGRAM})
        elif said and self.told.open and (self._marked or self.told.goes_on):
            self.told.steer(self._id(item), said)
        elif said:
            self.told.prompt(self._id(item), said)

    def _reasoning(self, item: dict[str, Any]) -> None:
        parts = records(item.get("content")) or records(item.get("summary"))
        text = "\n\n".join(filter(None, (string(part.get("text")) for part in parts)))
        if text:
            self._block({"type": "reasoning", "text": text})
        if item.get("encrypted_content"):
            self.lost["reasoning that the provider keeps encrypted"] += 1

    def _call(self, item: dict[str, Any], name: str) -> str:
        call_id = string(item.get("call_id")) or string(item.get("id")) or f"call-{self.told.at}"
        given = next((item[key] for key in ("arguments", "input", "action") if key in item), None)
        self._block({"type": "tool-call", "id": call_id, "name": name, "arguments": arguments(given)})
        return call_id

    def _output(self, item: dict[str, Any]) -> None:
        output = item.get("output")
        failed = record(output).get("success") is False
        content = record(output).get("content") if isinstance(output, dict) else output
        call_id = string(item.get("call_id"))
        self.told.result(f"{call_id}-{self.told.at}", call_id, self._content(content), is_error=failed)

    def _event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "task_started" | "turn_started":
                self._marked = True
                self.told.end_turn(None)
            case "task_complete" | "turn_complete":
                self.told.end_turn(COMPLETED if self.told.looks_done else None)
            case "turn_aborted":
                self.told.end_turn(STOPPED)
            case "error":
                error = {"message": string(event.get("message")) or "the request failed", "code": "API"}
                self.told.end_turn({"kind": "error", "error": error})
            case "token_count":
                self._count(record(record(event.get("info")).get("last_token_usage")))
            case "thread_rolled_back":
                self._went_back(count(event.get("num_turns")))
            case "thread_name_updated":
                self.told.title(string(event.get("thread_name")))

    def _count(self, usage: dict[str, Any]) -> None:
        """What a request cost; it comes when its answer is whole."""
        cached, reasoning = count(usage.get("cached_input_tokens")), count(usage.get("reasoning_output_tokens"))
        counts = {
            "inputTokens": max(0, count(usage.get("input_tokens")) - cached),
            "outputTokens": count(usage.get("output_tokens")),
            "cacheReadTokens": cached,
            "reasoningTokens": reasoning,
        }
        self.told.usage({name: n for name, n in counts.items() if n})
        self.told.end_answer()

    def _went_back(self, turns: int) -> None:
        source = {"plugin": PROGRAM, "form": "notice"}
        if self.told.rewind(max(0, self.told.turn - turns), f"back-{self.told.at}", _WENT_BACK, source):
            self.lost["that the user went back and left something behind: it stands where it was said"] += 1

    def _compacted(self, payload: dict[str, Any]) -> None:
        kept = [self._content(item.get("content")) for item in records(payload.get("replacement_history"))]
        told = "\n\n".join(block["text"] for said in kept for block in said)
        summary = string(payload.get("message")) or told or "[The summary is not in the log.]"
        self.told.compacted(f"compaction-{self.told.at}", f"summary-{self.told.at}", summary)
        if kept:
            self.lost["what a compaction kept beside its summary"] += 1

    # -- blocks ----------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        self.told.block("", f"answer-{self.told.at}", self._model, block)

    def _id(self, item: dict[str, Any]) -> str:
        return string(item.get("id")) or f"message-{self.told.at}"

    def _content(self, content: Json) -> list[Block]:
        if isinstance(content, str):
            return blocks(content)
        out: list[Block] = []
        for part in records(content):
            if text := string(part.get("text")):
                out += blocks(text)
            elif "image" in string(part.get("type")):
                self.lost["images"] += 1
                out += blocks("[image]")
        return out
