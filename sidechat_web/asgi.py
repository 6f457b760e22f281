"""The ASGI application: HTTP by Django, sockets by Channels, static files ahead of both, turns beside them.

`application` starts the process's runner with its first scope, so that any ASGI server will do;
`routes` is the same without a runner.
"""

from __future__ import annotations

import asyncio
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sidechat_web.settings")

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

_pages = get_asgi_application()  # loads the apps; what follows imports models

from sidechat_web.delivery import hub  # noqa: E402
from sidechat_web.delivery.routing import sockets  # noqa: E402
from sidechat_web.pages import history  # noqa: E402
from sidechat_web.runtime import local_model, runner  # noqa: E402
from sidechat_web.static_files import Application, Receive, Scope, Send, StaticFiles  # noqa: E402


class WithRunner:
    """`application`, and the runner of this process while it serves."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._starting: asyncio.Future[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.start()
        await self._application(scope, receive, send)

    async def start(self) -> None:
        """Return once the runner runs; one that failed to start is tried again."""
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = asyncio.ensure_future(runner.start())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """Close the sockets, end the turns and the embedded model of this process."""
        await hub.stop()
        await runner.stop()
        await local_model.stop()


routes = StaticFiles(ProtocolTypeRouter({"http": _pages, "websocket": sockets(history.info)}))
application = WithRunner(routes)
