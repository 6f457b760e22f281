"""Who is asking: the local user, people who sign in, and programs with a token.

The names below load on first use, because Django imports this package before its models exist.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .middleware import LocalUserMiddleware
    from .tokens import local_token, user_for_token
    from .users import local_user

__all__ = ["LocalUserMiddleware", "local_token", "local_user", "user_for_token"]
_MODULES = {
    "LocalUserMiddleware": "middleware",
    "local_token": "tokens",
    "local_user": "users",
    "user_for_token": "tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
