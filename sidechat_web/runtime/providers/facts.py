"""What is known about models without asking them: windows and prices, from `genai-prices`.

The data are large, so they are read when they are first asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

_VENDORS: Final = {"openai": "openai", "anthropic": "anthropic", "deepseek": "deepseek", "gemini": "google"}
_listed: dict[tuple[str, str], int] = {}  # windows that servers told when they were asked for their models


def window(provider: str, model: str) -> int | None:
    """The model's context window in tokens: as its server told, or as it is known; None where it is not."""
    if told := _listed.get((provider, model)):
        return told
    found = _model(provider, model)
    return found.context_window if found is not None else None


def learn(provider: str, model: str, tokens: int) -> None:
    """Take a window that the model's own server told."""
    _listed[provider, model] = tokens


def cost(provider: str, model: str, usage: dict[str, int]) -> float | None:
    """What one request with this usage cost in US dollars; None where no prices are known.

    Prices may rise with the size of a request, so a sum of usages has no price of its own.
    """
    if _model(provider, model) is None:
        return None
    import genai_prices

    fresh, read, written = (usage.get(key, 0) for key in ("inputTokens", "cacheReadTokens", "cacheWriteTokens"))
    counts = genai_prices.Usage(
        input_tokens=fresh + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=usage.get("outputTokens", 0),
    )
    priced = genai_prices.calc_price(counts, model, provider_id=_VENDORS[provider])
    return float(priced.total_price)


@lru_cache(maxsize=1024)
def _model(provider: str, model: str) -> Any:
    vendor = _VENDORS.get(provider)
    if vendor is None:
        return None
    from genai_prices import data_snapshot

    try:
        return data_snapshot.get_snapshot().find_provider_model(model, None, vendor, None)[1]
    except LookupError:
        return None
