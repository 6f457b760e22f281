"""The sockets: `/ws/sessions/<id>/` for one session, `/ws/tree/` for the sidebar.

A socket is accepted where its Host and Origin are ours. Whoever is not signed in, or asks for a session
that is absent, deleted or another user's, gets `bye forbidden` and close code 4404, without a difference.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.base_user import AbstractBaseUser

from sidechat_web.runtime.db import in_db

from . import access, frames, html
from .flow import Closed, Flow
from .hub import hub
from .outlet import Bye
from .rendering import Info
from .tree import TreeViewer
from .viewer import Viewer

_logger = logging.getLogger(__name__)

CLOSE_CODES: Final[dict[Bye, int]] = {"forbidden": 4404, "slow": 4408, "deleted": 4410, "shutdown": 4503}
FAILED: Final = 4500


class Socket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Accepts, then writes in a task of its own: no handler waits for what is sent."""

    channel_layer_alias: ClassVar[Any] = None  # what happens is heard from `runtime.live`

    async def connect(self) -> None:
        try:
            self.credential = access.credential(self.scope)
        except access.Refused:
            await self.close()
            return
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        self.query = {name: values[-1] for name, values in query.items()}
        self.html = self.query.get("as") != "json"
        self.flow = Flow(self.base_send)
        await self.accept()
        self._writing = asyncio.create_task(self._write())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """What a client says is ignored: a socket only shows."""

    async def disconnect(self, code: int) -> None:
        if hasattr(self, "_writing"):
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing

    async def show(self) -> None:
        """Write until the socket has to be left."""
        raise NotImplementedError

    async def leave(self, code: Bye) -> None:
        await self.flow.send(html.bye(code) if self.html else frames.bye(code))
        await self.close(CLOSE_CODES[code])

    async def user(self, session_id: str = "") -> AbstractBaseUser | None:
        return await in_db(access.user_for, self.credential, session_id)

    async def _write(self) -> None:
        try:
            await self.show()
        except Closed:
            pass
        except Exception:
            _logger.exception("a socket failed; its client will come again")
            await self.close(FAILED)


class SessionSocket(Socket):
    """`?after=SEQ` (exclusive; default: from the start), `?as=json`, `?chunks=1`."""

    def __init__(self, info: Info) -> None:
        super().__init__()
        self._info = info

    async def show(self) -> None:
        session_id = self.scope["url_route"]["kwargs"]["session_id"]
        if await self.user(session_id) is None:
            return await self.leave("forbidden")
        async with hub().feed(session_id, self._info) as feed:
            if feed is None:
                return await self.leave("forbidden")
            viewer = Viewer(
                feed,
                self.flow,
                self.credential,
                after=self._after(),
                chunks=self.query.get("chunks") == "1" and not self.html,
                html=self.html,
            )
            with hub().watched(viewer), feed.showing(viewer):
                await self.leave(await viewer.run())

    def _after(self) -> int:
        try:
            return max(-1, int(self.query.get("after", "-1")))
        except ValueError:
            return -1


class TreeSocket(Socket):
    """`?as=json`. Rows as they change after its hello, which is when a client fetches the list."""

    async def show(self) -> None:
        user = await self.user()
        if user is None:
            return await self.leave("forbidden")
        viewer = TreeViewer(user, self.flow, self.credential, html=self.html)
        with hub().watched(viewer), hub().tree.showing(viewer):
            await self.leave(await viewer.run())


class Nowhere(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Refuses a socket at any other address."""

    channel_layer_alias: ClassVar[Any] = None

    async def connect(self) -> None:
        await self.close()
