"""A session's transcript as it grows, and its streaming blocks: rendered once for all browsers on a feed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from django.utils.html import escape

from sidechat_web.core.events import ASSISTANT_MESSAGE, CONTEXT_MESSAGE, TURN_END, TURN_START, USER_MESSAGE, Event, Replace
from sidechat_web.render.items import Item
from sidechat_web.render.stream import Append, Rewrite, StreamingMarkdown, Update
from sidechat_web.render.transcript import SessionInfo, Transcript, cited, render_items
from sidechat_web.runtime.db import in_db
from sidechat_web.runtime.live import Delta, Kind
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from . import html
from .blocks import Block, Key

Info = Callable[[Session, list[Event]], SessionInfo]  # what a transcript of these events must know beside them

MOST_REPLAYED: Final = 1_000  # events; after a longer absence the page loads its pane anew


class Rendering:
    """Lives on the event loop; what takes long is done in threads, one thing at a time."""

    def __init__(self, info: Info) -> None:
        self._info = info
        self._transcript: Transcript | None = None
        self._folded = -1  # the seq up to which `_transcript` is folded
        self._streams: dict[Key, Streaming] = {}

    # -- entries ---------------------------------------------------------------------------------

    async def events(self, session: Session, after: int, until: int, events: list[Event]) -> dict[int, str]:
        """Seq → frame of the events that were read from `after` to `until`."""
        ...
