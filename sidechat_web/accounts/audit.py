"""The audit log: what changed who may do what, by whom, when and from where."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from .addresses import client_address
from .models import AuditEntry


def record(
    actor: AbstractBaseUser | None, request: HttpRequest | None, action: str, target: object, **detail: Any
) -> None:
    """Add an entry; without an actor and a request it was the command line. Never given a secret."""
    AuditEntry.objects.create(
        actor=actor.get_username() if actor is not None else "",
        action=action,
        target=str(target)[:200],
        detail=detail,
        address=client_address(request) if request is not None else "",
    )
