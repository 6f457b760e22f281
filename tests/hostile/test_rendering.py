"""Hostile text through the renderer: it stays text, however it is cut, at a cost that follows its length."""

import sys
from urllib.parse import urlsplit

import pytest

from sidechat_web.render import markdown
from sidechat_web.render.stream import StreamingMarkdown
from tests.delivery.dom import Client, parsed

from .payloads import COSTLY, PAYLOADS, SHORT

INERT = frozenset({"class", "role", "aria-label", "tabindex", "start", "type", "data-copy", "rel", "target", "href"})
LINKS = frozenset({"", "http", "https", "mailto"})
SMALL = 2_000


def nodes(node):
    yield node
    for child in node.elements:
        yield from nodes(child)


def is_inert(html):
    """Every element and attribute is one that cannot act, and every address one that a click may open."""
    for node in nodes(parsed(html)):
        if node.tag not in markdown._TAGS | markdown._MATHML | {"root"}:
            return False
        for name, value in node.attributes:
            if name not in INERT | markdown._MATHML_ATTRIBUTES:
                return False
            if name == "href" and (urlsplit(value).scheme not in LINKS or value.startswith(("//", "/\\", "\\"))):
                return False
    return True


def streamed(pieces):
    """The blocks that a client shows in the end; all that it was sent on the way is inert."""
    rendering, client = StreamingMarkdown(), Client()
    for piece in pieces:
        updates = [*rendering.feed(piece), *rendering.flush()]
        assert all(is_inert(update.html) for update in updates if hasattr(update, "html"))
        client.apply(updates)
    client.apply(rendering.finish())
    return client.blocks


def whole(text):
    return [repr(node) for block in markdown.parse(text) for node in parsed(block.html).elements]


def calls(text):
    """How many Python functions run to render `text`."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        markdown.to_html(text)
    finally:
        sys.setprofile(before)
    return count


def test_corpus_is_large():
    assert len(PAYLOADS) >= 300


def test_every_payload_is_inert():
    assert [payload for payload in PAYLOADS if not is_inert(markdown.to_html(payload))] == []


def test_cut_at_every_character():
    assert [payload for payload in SHORT if streamed(payload) != whole(payload)] == []


@pytest.mark.parametrize("payload", sorted(SHORT, key=len)[:40])
def test_cut_in_two_anywhere(payload):
    for at in range(1, len(payload)):
        assert streamed([payload[:at], payload[at:]]) == whole(payload)


@pytest.mark.parametrize("payload", COSTLY, ids=lambda payload: repr(payload[:12]))
def test_work_follows_the_length(payload):
    markdown.to_html(payload[:SMALL])
    once, twice = calls(payload[:SMALL]), calls(payload[: 2 * SMALL])
    assert twice <= 3 * once + 1_000


def test_what_costs_too_much_is_shown_as_written():
    for unit in ("[", "![", "[a][b"):
        text = unit * markdown.MOST_BRACKETS + "["
        assert markdown.to_html(text).startswith('<pre class="plain">')
