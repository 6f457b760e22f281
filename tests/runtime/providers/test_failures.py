"""Failures in the provider's words, without keys."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from sidechat_web.runtime.providers import failures


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "plain"}}, "plain"),
        ({"message": "unwrapped", "type": "x"}, "unwrapped"),
        ({"type": "error", "error": {"type": "x", "message": "nested"}}, "nested"),
        ([{"error": {"code": 400, "message": "in a list"}}], "in a list"),
        ({"error": "a string"}, "a string"),
        ({"detail": [{"message": "validation"}]}, "validation"),
        ("<html><head><title>502 Bad Gateway</title></head><body>\n<h1>502</h1></body></html>", "502 Bad Gateway 502"),
        (" text ", "text"),
        ({}, "Label answered 500"),
        (None, "Label answered 500"),
    ],
)
def test_words_of_any_body(body, expected):
    assert failures.refused("Label", 500, body, {}).failure["message"] == expected


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "REQUEST", False),
        (401, "AUTH", False),
        (403, "AUTH", False),
        (408, "REQUEST", True),
        (413, "REQUEST", False),
        (429, "RATE_LIMIT", True),
        (500, "SERVER", True),
        (529, "SERVER", True),
    ],
)
def test_status(status, code, retryable):
    found = failures.refused("L", status, {"message": "m"}, {"request-id": "r1"})
    assert found.failure == {"message": "m", "code": code, "status": status, "requestId": "r1"}
    assert found.retryable is retryable


def test_retry_after():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90))
    assert failures.retry_after_ms({"retry-after": "1.5"}) == 1500
    assert failures.retry_after_ms({"retry-after-ms": "20", "retry-after": "9"}) == 20
    assert 80_000 < failures.retry_after_ms({"retry-after": later}) <= 90_000
    assert failures.retry_after_ms({"retry-after": "-3"}) == 0
    assert [failures.retry_after_ms({"retry-after": text}) for text in ("soon", "", "inf", "nan")] == [None] * 4
    assert failures.retry_after_ms({}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key my-own-secret! is wrong", "key [key] is wrong"),
        ("Incorrect API key provided: sk-proj-Abc123_def456", "Incorrect API key provided: [key]"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer [key]"),
        ("AIzaSyA1234567890abcdefghijklmn", "[key]"),
        ("GET https://host/v1/models?key=abcdefghij&x=1", "GET https://host/v1/models?key=[key]&x=1"),
        ("cannot reach http://me:word@host:1/v1", "cannot reach http://[key]@host:1/v1"),
        ("the token limit of the key insight is skeletal", "the token limit of the key insight is skeletal"),
        ("model gpt-5-mini-2025-08-07 not found", "model gpt-5-mini-2025-08-07 not found"),
    ],
)
def test_redaction(text, expected):
    assert failures.redact(text, ["my-own-secret!", "none"]) == expected


def test_long_words_are_cut():
    found = failures.redacted(failures.failure("x" * 10_000, "C"), [])
    assert len(found.failure["message"]) == 2000
