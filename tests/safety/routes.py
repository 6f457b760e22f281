"""Every address of the product and who may call it. A route that is missing here fails the matrix.

The rules name what a caller needs: `signed_in`; to `read` or `write` the session, or to `own` it; to write to it
and to its parent (`merge`), or to read both (`renew`); to be an `admin`, or to `administer`. `row`: signed in, and
404 for a row that is another's. `leave`: whoever comes is sent to sign in. `open`: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver

PAGES = {
    "home": {"GET": "signed_in"},
    "new": {"GET": "signed_in", "POST": "signed_in"},
    "import": {"GET": "signed_in", "POST": "signed_in"},
    "sessions": {"GET": "signed_in"},
    "session": {"GET": "read"},
    "state": {"GET": "read"},
    "older": {"GET": "read"},
    "inherited": {"GET": "read"},
    "message-text": {"GET": "read"},
    "send": {"POST": "write"},
    "stop": {"POST": "write"},
    "continue": {"POST": "write"},
    "open-side": {"POST": "read"},
    "renew": {"POST": "renew"},
    "fork": {"POST": "read"},
    "retry": {"GET": "read", "POST": "read"},
    "edit-queued": {"GET": "write", "POST": "write"},
    "remove-queued": {"POST": "write"},
    "decide": {"POST": "write"},
    "merge": {"POST": "merge"},
    "merge-sides": {"GET": "write", "POST": "write"},
    "review": {"GET": "write", "POST": "write"},
    "cancel-merge": {"POST": "write"},
    "retract": {"POST": "write"},
    "promote": {"POST": "write"},
    "settings": {"GET": "read", "POST": "write"},
    "export": {"GET": "read"},
    "delete": {"GET": "own", "POST": "own"},
    "share": {"GET": "own", "POST": "own"},
    "account": {"GET": "signed_in"},
    "account-password": {"POST": "signed_in"},
    "account-tokens": {"POST": "signed_in"},
    "account-revoke-token": {"POST": "row"},
    "account-end-sign-in": {"POST": "row"},
    "account-invitations": {"POST": "admin"},
    "account-withdraw-invitation": {"POST": "admin"},
    "preferences": {"GET": "admin"},
    "add-provider": {"GET": "admin", "POST": "admin"},
    "edit-provider": {"GET": "admin", "POST": "admin"},
    "provider-models": {"GET": "admin"},
    "test-provider": {"POST": "admin"},
    "remove-provider": {"POST": "admin"},
    "mcp-server": {"GET": "admin", "POST": "admin"},
    "trust-mcp-server": {"POST": "admin"},
    "test-mcp-server": {"POST": "admin"},
    "remove-mcp-server": {"POST": "admin"},
    "login": {"GET": "open", "POST": "open"},
    "logout": {"POST": "leave"},
    "join": {"GET": "open", "POST": "open"},
    "icon": {"GET": "open"},
    "healthz": {"GET": "open"},
    "readyz": {"GET": "open"},
    "metrics": {"GET": "open"},
    "api:openapi-json": {"GET": "open"},
    "api:openapi-view": {"GET": "open"},
    "api:api-root": {"GET": "open"},
}

ADMIN_PAGES = "admin:"  # the names of all of these begin so; the rule is `administer`

CALLS = {
    "create_session": "signed_in",
    "list_sessions": "signed_in",
    "read_session": "read",
    "change_session": "write",
    "delete_session": "own",
    "list_events": "read",
    "list_messages": "read",
    "send_message": "write",
    "list_requests": "read",
    "read_request": "read",
    "list_queue": "read",
    "change_queued": "write",
    "remove_queued": "write",
    "stop_turn": "write",
    "continue_turn": "write",
    "compact_session": "write",
    "fork_session": "read",
    "retry_turn": "read",
    "renew_side": "renew",
    "read_side": "read",
    "draft_note": "write",
    "merge_side": "merge",
    "list_merges": "read",
    "cancel_merge": "write",
    "retract_note": "write",
    "promote_side": "write",
    "list_approvals": "read",
    "decide": "write",
    "list_shares": "own",
    "share_session": "own",
    "end_share": "own",
    "export_session": "read",
    "import_log": "signed_in",
    "list_models": "signed_in",
}

SOCKETS = {"ws/tree/": "signed_in", "ws/sessions/(?P<session_id>[^/]+)/": "read", "": "nowhere"}


@dataclass(frozen=True)
class Route:
    """A leaf of the URL table: its name with namespace, and its path with `{parameters}`."""

    name: str
    path: str


def routes() -> list[Route]:
    return list(_leaves(get_resolver().url_patterns, "", ""))


def _leaves(patterns: list[URLPattern | URLResolver], path: str, namespace: str) -> Iterator[Route]:
    for pattern in patterns:
        here = path + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _leaves(pattern.url_patterns, here, inner)
        else:
            plain = re.sub(r"\^\(\?P<(\w+)>[^)]*\)/\$", r"<\1>/", here)
            yield Route(f"{namespace}{pattern.name}", "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", plain))
