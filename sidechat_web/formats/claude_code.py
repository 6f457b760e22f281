"""Claude Code's session files: `~/.claude/projects/<folder>/<session>.jsonl`, and those of its sub-agents.

Records form a tree by `uuid` and `parentUuid`, written in the order in which they happened. One answer
spans several records with the same `message.id`, a block in each. A prompt whose parent belongs to an
earlier turn is the user going back: what was said since leaves the model's view, and stays in the log.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from sidechat_web.core import jsontext
from sidechat_web.core.events import Block, Json

from .header import Header
from .records import arguments, blocks, count, record, records, string, time_ms
from .retelling import COMPLETED, STOPPED, Retelling

PROGRAM: Final = "claude-code"
_NAMES: Final = """
    user assistant system summary attachment progress file-history-snapshot queue-operation
    custom-title ai-title last-prompt permission-mode mode agent-name pr-link
"""
KINDS: Final = frozenset(_NAMES.split())
_WENT_BACK: Final = "[The user went back to this point. What followed here before was left behind.]"
_STOPPED: Final = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
_INJECTED: Final = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<system-reminder>",
    "Caveat: The messages below",
)
_LAST_WORDS: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
_USAGE: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_input_tokens",
    "cacheWriteTokens": "cache_creation_input_tokens",
}


def is_entry(entry: dict[str, Any]) -> bool:
    """Whether a record is one of this program's."""
    return string(entry.get("type")) in KINDS and bool(entry.keys() & {"sessionId", "uuid", "leafUuid", "messageId"})


class ClaudeCode:
    """See told.Teller."""

    program = PROGRAM

    def __init__(self) -> None:
        self.told = Retelling("anthropic", streamed=True)
        self.lost: Counter[str] = Counter({"the system prompt and the tool schemas": 1})
        self.last_word = False
        self._agent = ""  # of a sub-agent's own file
        self._turn_of: dict[str, int] = {}  # record → the turn in which it stands
        self._named = False

    def identify(self, entry: dict[str, Any]) -> Header | None:
        session, message = string(entry.get("sessionId")), record(entry.get("message"))
        if not session or not message:
            return None
        self._agent = string(entry.get("agentId")) if entry.get("isSidechain") is True else ""
        created, cwd = time_ms(entry.get("timestamp")) or 0, string(entry.get("cwd"))
        folder = cwd if cwd.startswith("/") else None
        if self._agent:
            return Header(f"{session}/{self._agent}", created, folder, parent_session=session, origin="subagent")
        return Header(session, created, folder)

    def tell(self, entry: dict[str, Any]) -> None:
        uuid = string(entry.get("uuid"))
        if uuid in self._turn_of:
            return  # written twice
        if entry.get("isSidechain") is True and not self._agent:
            self.lost["messages of sub-agents"] += 1
            return
        self.told.at_time(time_ms(entry.get("timestamp")))
        match string(entry.get("type")):
            case "user":
                self._user(entry, uuid or f"line-{self.told.at}")
            case "assistant":
                self._assistant(entry, uuid or f"line-{self.told.at}")
            case "system":
                self._system(entry)
            case "attachment":
                self._attachment(record(entry.get("attachment")), uuid or f"line-{self.told.at}")
            case "custom-title" | "ai-title" | "summary":
                self._title(entry)
            case kind if kind not in KINDS:
                self.lost["records of unknown kinds"] += 1
        if uuid:
            self._turn_of[uuid] = self.told.turn

    # -- records ---------------------------------------------------------------------------------

    def _user(self, entry: dict[str, Any], uuid: str) -> None:
        content = record(entry.get("message")).get("content")
        if entry.get("isCompactSummary") is True:
            self.told.compacted(uuid, uuid, "".join(b["text"] for b in self._content(content)))
            return
        results = [part for part in records(content) if part.get("type") == "tool_result"]
        for n, part in enumerate(results):
            message_id = uuid if n == 0 else f"{uuid}-{n}"
            said, is_error = self._content(part.get("content")), part.get("is_error") is True
            self.told.result(message_id, string(part.get("tool_use_id")), said, is_error=is_error)
        said = self._content([part for part in records(content) if part not in results] if results else content)
        if any(block["text"] in _STOPPED for block in said):
            self.told.end_turn(STOPPED)
            said = [block for block in said if block["text"] not in _STOPPED]
        if said:
            self._said(entry, f"{uuid}-said" if results else uuid, said, beside_results=bool(results))

    def _said(self, entry: dict[str, Any], message_id: str, said: list[Block], *, beside_results: bool) -> None:
        if entry.get("isMeta") is True or beside_results or said[0]["text"].lstrip().startswith(_INJECTED):
            self.told.context(message_id, said, {"plugin": PROGRAM})
            return
        if not self._goes_back(entry, message_id) and self.told.goes_on:
            self.told.steer(message_id, said)
        else:
            self.told.prompt(message_id, said)

    def _goes_back(self, entry: dict[str, Any], message_id: str) -> bool:
        """Whether a prompt's parent stands in an earlier turn; then the turns since are left behind."""
        parent = entry.get("parentUuid")
        turn = 0 if parent is None and "parentUuid" in entry else self._turn_of.get(string(parent), self.told.turn)
        source = {"plugin": PROGRAM, "form": "notice"}
        if turn >= self.told.turn or not self.told.rewind(turn, f"{message_id}-back", _WENT_BACK, source):
            return False
        self.lost["that the user went back and left something behind: it stands where it was said"] += 1
        return True

    def _assistant(self, entry: dict[str, Any], uuid: str) -> None:
        message = record(entry.get("message"))
        model = string(message.get("model")) or "unknown"
        if entry.get("isApiErrorMessage") is True:
            text = "".join(block["text"] for block in self._content(message.get("content")))
            self.told.end_turn({"kind": "error", "error": {"message": text or "the request failed", "code": "API"}})
            return
        if model == "<synthetic>":
            return
        for part in records(message.get("content")):
            for block in self._answer_blocks(part):
                self.told.block(string(message.get("id")) or uuid, uuid, model, block)
        usage = record(message.get("usage"))
        counts = {ours: n for ours, theirs in _USAGE.items() if (n := count(usage.get(theirs)))}
        self.told.usage(counts)
        self.last_word = string(message.get("stop_reason")) in _LAST_WORDS

    def _system(self, entry: dict[str, Any]) -> None:
        match entry.get("subtype"):
            case "turn_duration":
                self.told.end_turn(COMPLETED if self.told.looks_done else None)
            case "compact_boundary":
                if record(entry.get("compactMetadata")).keys() & {"preservedMessages", "preservedSegment"}:
                    self.lost["what a compaction kept beside its summary"] += 1

    def _attachment(self, attachment: dict[str, Any], uuid: str) -> None:
        if attachment.get("type") == "queued_command" and (said := self._content(attachment.get("prompt"))):
            if said[0]["text"].lstrip().startswith("<"):
                self.told.context(uuid, said, {"plugin": PROGRAM})
            else:
                self.told.steer(uuid, said)
        else:
            self.lost["context that the program added by itself"] += 1

    def _title(self, entry: dict[str, Any]) -> None:
        given = string(entry.get("customTitle"))
        if entry.get("type") == "summary":
            ours = string(entry.get("leafUuid")) in self._turn_of  # others' summaries stand here, too
            given = string(entry.get("summary")) if ours else ""
        elif not given and not self._named:
            given = string(entry.get("aiTitle"))
        self._named = self._named or entry.get("type") == "custom-title"
        self.told.title(given)

    # -- blocks ----------------------------------------------------------------------------------

    def _answer_blocks(self, part: dict[str, Any]) -> list[Block]:
        match part.get("type"):
            case "text":
                return blocks(string(part.get("text")))
            case "thinking":
                proof = {"signature": string(part.get("signature"))} if part.get("signature") else {}
                return [{"type": "reasoning", "text": string(part.get("thinking")), **proof}]
            case "redacted_thinking":
                return [{"type": "reasoning", "text": "", "redacted": string(part.get("data"))}]
            case "tool_use":
                call_id = string(part.get("id")) or f"call-{self.told.at}"
                name = string(part.get("name")) or "unnamed"
                return [{"type": "tool-call", "id": call_id, "name": name, "arguments": arguments(part.get("input"))}]
        return [self._placeholder(part)]

    def _content(self, content: Json) -> list[Block]:
        """Text blocks of a message's or a result's content; what is no text is named in its place."""
        if isinstance(content, str):
            return blocks(content)
        out: list[Block] = []
        for part in records(content):
            out += blocks(string(part.get("text"))) if part.get("type") == "text" else [self._placeholder(part)]
        return out

    def _placeholder(self, part: dict[str, Any]) -> Block:
        kind = string(part.get("type")) or "unknown"
        if kind in ("image", "document"):
            self.lost[f"{kind}s"] += 1
            media = string(record(part.get("source")).get("media_type"))
            return {"type": "text", "text": f"[{kind}{f': {media}' if media else ''}]"}
        self.lost[f"blocks of type {kind}"] += 1
        return {"type": "text", "text": f"[{kind}] {jsontext.dumps(part)[:1000]}"}
