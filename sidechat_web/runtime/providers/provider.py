"""A server that answers: what is known of it, and the vendors' own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Protocol = Literal["openai", "anthropic"]
OPENAI: Final = "openai"
ANTHROPIC: Final = "anthropic"
LOCAL: Final = "local"  # the name of the embedded model's provider


@dataclass(frozen=True, slots=True)
class Provider:
    """A server that speaks one of the two wires. `base_url` None is the vendor's own, or the embedded server."""

    name: str
    label: str
    base_url: str | None
    api_key: str
    default_model: str = ""
    protocol: Protocol = OPENAI


# The vendors' own services: what is usual for each, without a key.
VENDORS: Final = {
    vendor.name: vendor
    for vendor in (
        Provider("openai", "OpenAI", "https://api.openai.com/v1", "", "gpt-5-mini"),
        Provider("anthropic", "Anthropic", "https://api.anthropic.com", "", "claude-sonnet-5-5", ANTHROPIC),
        Provider("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "", "deepseek-chat"),
        Provider("gemini", "Gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "", "gemini-2.5-flash"),
    )
}
