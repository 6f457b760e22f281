"""The header line of a log: who it is, and where its history came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import jsontext
from sidechat_web.core.codec import is_number
from sidechat_web.core.errors import LogUnreadable, LogUnsupported
from sidechat_web.core.events import Json, safe_integer

VERSION: Final = 0
_RETIRED: Final = ("sandboxMode", "approvalPolicy")


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of a header in the order in which they are written; absent ones are None."""

    id: str
    created_at: int
    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    origin: str | None = None
    delegation_depth: int = 0
    agent_preset: str | None = None

    def line(self) -> bytes:
        """The header line, without the newline."""
        fields = {
            "type": "session",
            "version": VERSION,
            "id": self.id,
            "createdAt": self.created_at,
            "cwd": self.cwd,
            "parentSession": self.parent_session,
            "seedLength": self.seed_length,
            "origin": self.origin,
            "delegationDepth": self.delegation_depth,
            "agentPreset": self.agent_preset,
        }
        return jsontext.dump_bytes({key: value for key, value in fields.items() if value is not None})


def parse_header(line: bytes) -> dict[str, Any]:
    """The record of a header line whose shape is right; its meaning is checked by `header_fault`.

    The version comes first: a newer log need not look like today's. Raises LogUnsupported for
    another version, LogUnreadable for what is no header.
    """
    try:
        record = jsontext.loads(line)
    except ValueError:
        raise LogUnreadable("the header line is not valid JSON") from None
    if not isinstance(record, dict):
        raise LogUnreadable("the first line is not a session header")
    version: Any = record.get("version")
    if is_number(version) and version != VERSION:
        age = "newer" if version > VERSION else "older"
        raise LogUnsupported(f"log format version {version} is {age} than version {VERSION}, which is read here")
    if not is_number(version) or not _is_header(record):
        raise LogUnreadable("the first line is not a session header")
    for key in _RETIRED:
        if key in record:
            raise LogUnreadable(f"the header has the retired field {key}")
    if not record["id"]:
        raise LogUnreadable("the header has an empty id")
    return record


def header_fault(record: dict[str, Any]) -> str | None:
    """What is wrong with the meaning of a header whose shape is right, or None."""
    cwd = record.get("cwd")
    if "cwd" in record and not (isinstance(cwd, str) and cwd.startswith("/")):
        return "header cwd must be an absolute path"
    if "parentSession" in record and not isinstance(record["parentSession"], str):
        return "header parentSession must be a string"
    if "seedLength" in record and not _count(record["seedLength"]):
        return "header seedLength must be a non-negative integer"
    return None


def header_of(record: dict[str, Any]) -> Header:
    """The header of a record that has no fault."""
    return Header(
        record["id"],
        record["createdAt"],
        record.get("cwd"),
        record.get("parentSession"),
        record.get("seedLength"),
        record.get("origin"),
        record["delegationDepth"],
        record.get("agentPreset"),
    )


def _is_header(record: dict[str, Any]) -> bool:
    return (
        record.get("type") == "session"
        and isinstance(record.get("id"), str)
        and _count(record.get("createdAt"))
        and _count(record.get("delegationDepth"))
        and record.get("origin", "subagent") == "subagent"
        and isinstance(record.get("agentPreset", ""), str)
    )


def _count(value: Json) -> bool:
    return safe_integer(value) and value >= 0
