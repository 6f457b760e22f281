"""Streaming Markdown: however a text is cut, the rendering ends as that of the whole, and never shows half a mark."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidechat_web.render import markdown
from sidechat_web.render.stream import Append, Rewrite, StreamingMarkdown

from .corpus import ANSWER, CASES
from .dom import Client, parsed

WORDS = [
    "a",
    "word ",
    "Two words",
    "é",
    "字",
    "http://a.b/c",
    "<b>",
    "&amp;",
    "- [ ] ",
    "    ",
    "  ",
    ".",
    ",",
    "5",
    ":",
]
MARKS = ["*", "**", "_", "`", "~~", "$", "$$", "[", "](", ")", "(", "[r]", "- ", "1. ", "> ", "# ", "\\", "!", "|"]
LINES = ["\n", "\n\n", "\r\n", "```\n", "```py\n", "[r]: http://x.y\n", "| a | b |\n", "|-|-|\n", "---\n"]
ODD = ["\t", "\x1b[1m", "\ud83d", "\ude00"]
PIECES = st.sampled_from([*WORDS, *MARKS, *LINES, *ODD])


def cut(text: str, seed: int) -> list[str]:
    rnd = random.Random(seed)
    pieces = []
    while text:
        n = rnd.choice([1, 1, 2, 3, 5, 8, 30]) if seed else 1
        pieces.append(text[:n])
        text = text[n:]
    return pieces


def blocks_of(text: str) -> list[str]:
    return [repr(node) for node in parsed(markdown.to_html(text)).elements]


def stream(pieces: list[str]) -> Client:
    """A client after all pieces; on the way what it shows is what a late joiner is shown."""
    source, client = StreamingMarkdown(), Client()
    for piece in pieces:
        client.apply(source.feed(piece))
    client.apply(source.flush())
    late = Client()
    late.apply(source.so_far())
    assert late.root.text.split() == client.root.text.split()
    client.apply(source.finish())
    return client


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_ends_as_the_whole(text, seed):
    assert stream(cut(text, seed)).blocks == blocks_of(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_any_pieces_end_as_the_whole(pieces):
    assert stream(pieces).blocks == blocks_of("".join(pieces))


@pytest.mark.parametrize("text", CASES)
def test_every_block_is_one_element(text):
    for block in markdown.parse(text):
        assert len(parsed(block.html).elements) == 1


def test_no_raw_marks_on_the_way():
    source, client = StreamingMarkdown(), Client()
    outside_code = re.compile(r"\*\*|`|~~|\]\(|\$\$|\\frac|\|--|^#|:---|\[ \]|&amp", re.M)
    for char in ANSWER:
        client.apply(source.feed(char))
        shown = "".join(node.text for node in client.root.elements if node.tag not in ("figure", "pre"))
        assert not outside_code.search(shown), shown[-80:]


def test_what_is_shown_never_shrinks_by_much():
    """Text that was shown stays: at most the end of the open block is taken back."""
    source, client, longest = StreamingMarkdown(), Client(), 0
    for char in ANSWER:
        client.apply(source.feed(char))
        length = len("".join(client.root.text.split()))
        assert length >= longest - 60
        longest = max(longest, length)


def test_running_text_is_continued_without_rendering():
    source = StreamingMarkdown()
    source.feed("A sentence")
    updates = [u for word in ("that", "goes", "on,", "and", "on;", "(and", "on)") for u in source.feed(f" {word}")]
    assert all(isinstance(u, Append) for u in updates)


def test_open_code_is_continued_without_rendering():
    source = StreamingMarkdown()
    source.feed("```\nfirst\n")
    updates = [u for n in range(50) for u in source.feed(f"line {n} `x` **y**\n")]
    assert all(isinstance(u, Append) for u in updates)


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + "code line\n" * 2_000,
        "- **item** `of` a list\n" * 500,
        "| **a** | `b` |\n|---|---|\n" + "| **1** | `2` |\n" * 500,
        "para **strong** `code`\n\n" * 500,
        "word " * 4_000,
        "`x` " * 3_000,
    ],
)
def test_cost_is_linear(text):
    """What is sent stays within a constant factor of the text, whatever it consists of."""
    source = StreamingMarkdown()
    sent = 0
    for start in range(0, len(text), 4):
        for update in source.feed(text[start : start + 4]):
            sent += len(update.html if isinstance(update, Rewrite) else update.text)
    assert sent < 150 * len(text)


def test_text_too_long_to_render_is_shown_as_written():
    text = "word **word** " * 30_000
    source, client = StreamingMarkdown(), Client()
    for start in range(0, len(text), 10_000):
        client.apply(source.feed(text[start : start + 10_000]))
    assert client.blocks == blocks_of(text)
