"""The models that sessions can use."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from sidechat_web.runtime.providers import listing

from . import schemas

router = Router(tags=["models"], exclude_unset=True)


@router.get("/models", response=schemas.Models)
def list_models(request: HttpRequest) -> dict[str, Any]:
    """The default first, then what the configured providers list; another name of theirs can be used, too."""
    return {"models": listing.list_models()}
