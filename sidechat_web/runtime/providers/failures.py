"""Why a request has no answer: in the provider's own words, without keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

_RETRIED: Final = frozenset({408, 409, 429})
_LONGEST: Final = 2_000  # characters of a provider's words
_KEY: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|pplx|nvapi)[-_][\w*.-]{8,}|\bAIza[\w-]{20,}|(?<=Bearer )\S{8,}|(?<=key=)[^&\s]{8,}"
)
_TAG: Final = re.compile(r"<[^>]*>")
_CREDENTIALS: Final = re.compile(r"(?<=://)[^\s/@]+@")


class ProviderFailure(Exception):
    """A request without an answer.

    `failure` is the log's `{message, code, status?, providerRetryAfterMs?, requestId?}`.
    """

    def __init__(self, failure: dict[str, Any], *, retryable: bool) -> None:
        super().__init__(failure["message"])
        self.failure, self.retryable = failure, retryable


def failure(message: str, code: str, *, retryable: bool = False) -> ProviderFailure:
    return ProviderFailure({"message": message, "code": code}, retryable=retryable)


def broken() -> ProviderFailure:
    return failure("the provider closed the stream before the answer was finished", "STREAM_BROKEN", retryable=True)


def damaged() -> ProviderFailure:
    """A piece of an answer is lost that calls tools: their arguments may have a hole that nobody would notice."""
    return failure("the provider sent a damaged piece of an answer that calls tools, so none was run", "STREAM_BROKEN")


def unreachable(label: str, cause: BaseException) -> ProviderFailure:
    return failure(f"cannot reach {label}: {_said(cause)}", "CONNECTION", retryable=True)


def disconnected(label: str, cause: BaseException) -> ProviderFailure:
    return failure(f"the connection to {label} broke: {_said(cause)}", "CONNECTION", retryable=True)


def refused(label: str, status: int, body: object, headers: Mapping[str, str]) -> ProviderFailure:
    """The failure of an answer with an HTTP error; `body` is its decoded JSON, or its text."""
    code = _code(status)
    found: dict[str, Any] = {"message": words(body) or f"{label} answered {status}", "code": code, "status": status}
    if (delay_ms := retry_after_ms(headers)) is not None:
        found["providerRetryAfterMs"] = delay_ms
    if request_id := headers.get("request-id") or headers.get("x-request-id"):
        found["requestId"] = request_id
    return ProviderFailure(found, retryable=status in _RETRIED or status >= 500)


def words(body: object) -> str:
    """What a provider says in an error body, whatever its shape; empty where it says nothing."""
    if isinstance(body, str):
        return " ".join(_TAG.sub(" ", body).split()) if body.lstrip().startswith("<") else body.strip()
    if isinstance(body, list):
        return words(body[0]) if body else ""
    if not isinstance(body, dict):
        return ""
    return next((said for key in ("error", "message", "detail") if (said := words(body.get(key)))), "")


def redacted(found: ProviderFailure, secrets: Iterable[str], *, retryable: bool | None = None) -> ProviderFailure:
    """The failure as it may be shown and logged."""
    shown = {**found.failure, "message": redact(found.failure["message"], secrets)[:_LONGEST]}
    return ProviderFailure(shown, retryable=found.retryable if retryable is None else retryable)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without these secrets and without anything that looks like a key."""
    for secret in secrets:
        if len(secret) >= 8:
            text = text.replace(secret, "[key]")
    return _CREDENTIALS.sub("[key]@", _KEY.sub("[key]", text))


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    for name, unit_ms in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            return max(0, int(float(headers[name]) * unit_ms))
        except (KeyError, ValueError, OverflowError):
            continue
    try:
        until = parsedate_to_datetime(headers["retry-after"])
        return max(0, int((until - datetime.now(UTC)).total_seconds() * 1000))
    except (KeyError, ValueError, TypeError):
        return None


def _said(cause: BaseException) -> str:
    return str(cause) or type(cause).__name__


def _code(status: int) -> str:
    if status in (401, 403):
        return "AUTH"
    if status == 429:
        return "RATE_LIMIT"
    return "SERVER" if status >= 500 else "REQUEST"
