"""Where the sockets are."""

from __future__ import annotations

from channels.routing import URLRouter
from django.urls import path, re_path

from .consumers import Nowhere, SessionSocket, TreeSocket
from .rendering import Info


def sockets(info: Info) -> URLRouter:
    """The application for WebSockets; `info` gives what a rendered transcript must know beside its events."""
    return URLRouter(
        [
            path("ws/tree/", TreeSocket.as_asgi()),
            re_path(r"^ws/sessions/(?P<session_id>[^/]+)/$", SessionSocket.as_asgi(info=info)),
            re_path("", Nowhere.as_asgi()),
        ]
    )
