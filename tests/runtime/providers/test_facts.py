"""Windows and prices."""

import subprocess
import sys

import pytest

from sidechat_web.runtime.providers import facts

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("provider", "model", "window"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", 200_000),
        ("openai", "gpt-4o", 128_000),
        ("gemini", "gemini-2.5-flash", 1_048_576),
        ("deepseek", "no-such-model", None),
        ("custom", "gpt-4o", None),
    ],
)
def test_windows(provider, model, window):
    assert facts.window(provider, model) == window


def test_a_server_knows_its_own_window():
    facts.learn("custom", "mine", 4096)
    assert facts.window("custom", "mine") == 4096


def test_cost_tells_cached_from_new():
    usage = {"inputTokens": 100_000, "outputTokens": 0}
    assert facts.cost("anthropic", "claude-haiku-4-5", usage) == pytest.approx(0.1)
    cached = {"inputTokens": 0, "cacheReadTokens": 100_000, "outputTokens": 0}
    assert facts.cost("anthropic", "claude-haiku-4-5", cached) == pytest.approx(0.01)
    written = {"inputTokens": 0, "cacheWriteTokens": 100_000, "outputTokens": 1000}
    assert facts.cost("anthropic", "claude-haiku-4-5", written) == pytest.approx(0.125 + 0.005)
    assert facts.cost("custom", "gpt-4o", usage) is None
    assert facts.cost("openai", "no-such-model", usage) is None


def test_sdks_and_prices_are_not_read_at_start():
    code = "import django; django.setup(); import sidechat_web.runtime.turn, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment())
    assert {"openai", "anthropic", "genai_prices", "httpx2"}.isdisjoint(out.stdout.split())


def _environment():
    import os

    return {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
