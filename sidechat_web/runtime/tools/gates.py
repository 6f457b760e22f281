"""`tools/pre-execute`: a waterfall of gates that every call passes before anything runs.

Deny wins over ask wins over allow; a gate that raises denies. A gate decides by the tool that the host
knows, never by what the model wrote about it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sidechat_web.storage.models import Session

from .registry import Tool

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed call. `tool` is None where the host knows none of that name."""

    session: Session
    call_id: str
    name: str
    arguments: Any
    tool: Tool | None


@dataclass(frozen=True, slots=True)
class Allow:
    pass


@dataclass(frozen=True, slots=True)
class Deny:
    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    reason: str


Verdict = Allow | Deny | Ask
Gate = Callable[[Call], Verdict]
pre_execute: list[Gate] = []


def judge(call: Call) -> Verdict:
    """The verdict of all gates on `call`; every gate is asked."""
    verdicts = [_ask(gate, call) for gate in pre_execute]
    for kind in (Deny, Ask):
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    return Allow()


def _ask(gate: Gate, call: Call) -> Verdict:
    try:
        return gate(call)
    except Exception:
        _logger.exception("a gate failed on %s; the call is denied", call.name)
        return Deny("The check before this tool failed, so it was not run.")
