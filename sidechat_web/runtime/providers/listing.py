"""The models that the configured providers offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final

from sidechat_web.runtime import local_model

from . import catalog, openai
from .catalog import LOCAL, Provider

_PATIENCE_SECONDS: Final = 3.0
_logger = logging.getLogger(__name__)


async def models() -> list[dict[str, Any]]:
    """`[{id, provider, name, window?}]`, the default first; of a provider that does not answer in time, its default."""
    providers = list(catalog.providers().values())
    listed = await asyncio.gather(*(_names(provider) for provider in providers))
    configs = [*_default()]
    for provider, names in zip(providers, listed, strict=True):
        configs += [{"provider": provider.name, "model": name} for name in names]
    return list({catalog.model_id(config): _as_json(config) for config in configs}.values())


def _default() -> Iterator[dict[str, Any]]:
    try:
        yield catalog.default_config()
    except catalog.NoModel:
        return


async def _names(provider: Provider) -> list[str]:
    if provider.name == LOCAL:
        return [local_model.MODEL_ID]
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await openai.models(provider)
    except Exception as e:  # whatever one server does, the others are listed
        _logger.warning("%s does not list its models: %s", provider.label, e)
        return [provider.default_model] if provider.default_model else []


def _as_json(config: dict[str, Any]) -> dict[str, Any]:
    out = {"id": catalog.model_id(config), "provider": config["provider"], "name": config["model"]}
    window = catalog.window(config)
    return {**out, "window": window} if window else out
