"""The process's log: one line for what ended, with session and seq; as text or as JSON.

No line has what anybody said, nor a key. So tracebacks come without the messages of exceptions, which may quote
anything; those of the system and of connections are kept.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from .facts import Fact

_logger = logging.getLogger("sidechat")
_PLAIN: Final = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TOLD: Final = ("OSError", "OperationalError", "InterfaceError", "ConnectionError", "TimeoutError")
_SECRETS: Final = re.compile(
    r"(?i)\bsc_[\w-]{16,}|\bbearer\s+\S+|(?<=/join/)[\w-]{16,}|(?<=token=)[^&\s\"']+|\bsk-[\w-]{8,}|(?<=://)[^/@\s]+(?=@)"
)


def write(fact: Fact) -> None:
    """Add a line about `fact`."""
    level = logging.WARNING if fact.details.get("reason") == "error" else logging.INFO
    if _logger.isEnabledFor(level):
        where = {"session": fact.session, "seq": fact.seq, "turn": fact.turn}
        took = {} if fact.ms is None else {"ms": fact.ms}
        _logger.log(level, fact.kind, extra={**where, **took, **fact.details})


class Quiet(logging.Formatter):
    """Lines for people: what `extra` says follows the message."""

    def format(self, record: logging.LogRecord) -> str:
        return _redacted(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record) + _tail(record)

    def formatException(self, ei: Any) -> str:
        return quiet_traceback(ei[1])


class Json(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, what `extra` says, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        out: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _redacted(record.getMessage()),
            **_extra(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            out["exception"] = _redacted(quiet_traceback(record.exc_info[1]))
        return json.dumps(out, default=_shown, ensure_ascii=False)


def quiet_traceback(error: BaseException | None) -> str:
    """Where it happened, through every cause, and of which kind it was."""
    parts = []
    while error is not None:
        frames = "".join(traceback.format_tb(error.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{_named(error)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nwhich came of:\n\n".join(parts)


def _named(error: BaseException) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return f"{name}: {error}" if kinds & set(_TOLD) else name


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN and _is_short(value)}


def _is_short(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 200)


def _tail(record: logging.LogRecord) -> str:
    return "".join(f" {name}={value}" for name, value in _extra(record).items())


def _redacted(text: str) -> str:
    return _SECRETS.sub("[secret]", text)


def _shown(value: object) -> str:
    return str(value)[:200]
