"""A streaming block on its way to browsers: whatever order its pieces came in, each is shown once."""

import re
from typing import Any

from sidechat_web.delivery.blocks import LiveBlocks
from sidechat_web.delivery.rendering import Rendering
from sidechat_web.runtime.live import Delta

KEY = (1, 1, 0)


def no_info(*_: Any) -> Any:
    raise AssertionError("a streaming block needs nothing of the store")


def piece(offset, text):
    return Delta(*KEY, "text", offset, text)


def shown(rendering, blocks):
    """The text that one who comes late sees."""
    return re.sub("<[^>]*>", "", rendering.so_far(KEY, blocks[KEY])).strip()


def test_pieces_that_waited_for_an_earlier_one_are_shown_once():
    blocks, rendering = LiveBlocks(), Rendering(no_info)
    assert blocks.apply(piece(6, "world ")) == []
    for added in blocks.apply(piece(0, "hello ")) + blocks.apply(piece(12, "again.")):
        rendering.extend(KEY, blocks[KEY], added.offset, added.text)
    assert shown(rendering, blocks) == "hello world again."


def test_what_came_while_nobody_looked_is_not_missing():
    blocks, rendering = LiveBlocks(), Rendering(no_info)
    for added in blocks.apply(piece(0, "hello ")):
        rendering.extend(KEY, blocks[KEY], added.offset, added.text)
    blocks.apply(piece(6, "world "))
    assert shown(rendering, blocks) == "hello world"
    for added in blocks.apply(piece(12, "again.")):
        rendering.extend(KEY, blocks[KEY], added.offset, added.text)
    assert shown(rendering, blocks) == "hello world again."
