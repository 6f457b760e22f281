"""A session as JSON: the one shape that lists, sockets and the API show."""

from __future__ import annotations

from typing import Any

from sidechat_web.storage.models import Session

from .providers import catalog


def session_json(session: Session) -> dict[str, Any]:
    """The API's session object; absent optional fields are omitted, usage is the session's own."""
    header = session.settings.get("header")
    out: dict[str, Any] = {
        "id": session.pk,
        "logId": session.log_id,
        "title": session.title,
        "kind": session.kind,
        "promoted": bool(session.settings.get("promoted")),
        "status": session.status,
        "model": catalog.model_id(header["config"]) if header else "",
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
        "archived": session.archived,
        "pinned": session.pinned,
        "unread": session.unread,
        "usage": {
            "inputTokens": session.input_tokens,
            "outputTokens": session.output_tokens,
            "cacheReadTokens": session.cache_read_tokens,
            "reasoningTokens": session.reasoning_tokens,
        },
        "context": _context(session),
    }
    if session.parent_log_id is not None:
        out["parentSession"] = session.parent_log_id
    if session.seed_length is not None:
        out["seedLength"] = session.seed_length
    if session.cwd is not None:
        out["cwd"] = session.cwd
    if session.last_reason is not None:
        ended = session.last_turn - (1 if session.open_turn is not None else 0)
        out["lastTurn"] = {"turn": ended, "reason": session.last_reason}
    return out


def _context(session: Session) -> dict[str, int]:
    header = session.settings.get("header")
    window = catalog.window(header["config"]) if header else None
    return {"used": session.context_used, **({"window": window} if window else {})}
