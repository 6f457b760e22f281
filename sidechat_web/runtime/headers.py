"""The non-message part of a session's requests: pinned when the session is created, logged when it changes."""

from __future__ import annotations

from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Draft
from sidechat_web.core.surface import canonical_header
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .providers import catalog
from .providers.provider import LOCAL
from .tools import registry

# Nothing of one session may stand here: an id, a path or a date would cost every fork its cache.
SYSTEM_PROMPT: Final = (
    "You are a careful assistant in a long working session. Answer exactly what is asked, briefly and concretely. "
    "Use Markdown. Say so when you are not sure."
)

LOCAL_SYSTEM_PROMPT: Final = "You are a helpful AI assistant."  # so small a model follows no more than this


def pinned(model: str = "", system: str | None = None, cwd: str | None = None) -> dict[str, Any]:
    """The header of a new session. Raises catalog.NoModel."""
    config = catalog.config(model) if model else catalog.default_config()
    if system is None:
        system = LOCAL_SYSTEM_PROMPT if config["provider"] == LOCAL else SYSTEM_PROMPT
    return canonical_header({"config": config, "system": system, "tools": registry.schemas(cwd)})


def of(session: Session) -> dict[str, Any]:
    """The header that the session's next request will carry. Raises catalog.NoModel where none was ever pinned."""
    header: dict[str, Any] | None = session.settings.get("header")
    return {**header, "config": catalog.current(header["config"])} if header else pinned()


def logged(session: Session, *, before: int | None = None) -> dict[str, Any] | None:
    """The folded header of the log's prefix `[0, before)`, or None where no request was made yet."""
    last = reading.tail(session, 1, before=before, types=[ev.REQUEST_HEADER])
    return canonical_header(last[0].data["header"]) if last else None


def change(session: Session) -> list[Draft]:
    """The `request/header` that must be logged before the next request; none while it is unchanged."""
    wanted, current = canonical_header(of(session)), logged(session)
    if wanted == current:
        return []
    return [ev.request_header(wanted, "initial" if current is None else "change")]
