"""Refusals of the record. Each has a stable `code` (as the API names it) and says what was expected."""

from __future__ import annotations


class SidechatError(Exception):
    """A refusal with a machine-readable `code` and a sentence for the user. Never a bug."""

    code = "error"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class RecordError(SidechatError):
    """An event that does not fit the log it was offered to."""

    code = "record_invalid"


class TurnOpen(SidechatError):
    """The operation needs a closed turn."""

    code = "turn_open"


class LogRefused(SidechatError):
    """A foreign log was not accepted; `line` is 1-based, None where no single line is at fault."""

    def __init__(self, reason: str, *, line: int | None = None, file: str | None = None) -> None:
        where = " ".join(part for part in (file, f"line {line}" if line is not None else None) if part)
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason, self.line, self.file = reason, line, file


class LogUnsupported(LogRefused):
    """Newer or older version, or an event type that must be understood and is not. The log is intact."""

    code = "log_unsupported"


class LogCorrupt(LogRefused):
    """The lines are readable but break a rule of the format."""

    code = "log_corrupt"


class LogUnreadable(LogRefused):
    """The bytes cannot be read as a log at all."""

    code = "log_unreadable"


class LogConflict(LogRefused):
    """The same log id with another history."""

    code = "log_conflict"
