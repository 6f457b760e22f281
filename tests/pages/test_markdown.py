"""Markdown: what it makes of the usual syntax, and that hostile text stays text."""

import re
from html import unescape

import pytest

from sidechat_web.render import markdown


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**a** `b`", "<p><strong>a</strong> <code>b</code></p>\n"),
        ("~~a~~", "<p><s>a</s></p>\n"),
        ("main.py and 10.0.0.1", "<p>main.py and 10.0.0.1</p>\n"),
        ("# a\n### b\n# c", '<h4 class="h1">a</h4>\n<h5 class="h3">b</h5>\n<h4 class="h1">c</h4>\n'),
        ("costs $5 and $10", "<p>costs $5 and $10</p>\n"),
        ("a\x1b[31mb\u202ec\ud800", "<p>abc\ufffd</p>\n"),
    ],
)
def test_html(source, expected):
    assert markdown.to_html(source) == expected


def test_task_list_has_names():
    html = markdown.to_html("- [x] a\n- [ ] b")
    assert '<span class="task" role="img" aria-label="done">☑</span> a' in html
    assert '<span class="task" role="img" aria-label="to do">☐</span> b' in html


def test_cells_are_aligned_by_class():
    html = markdown.to_html("|a|b|\n|-|-:|\n|1|2|")
    assert '<td>1</td>\n<td class="right">2</td>' in html


def test_code_has_language_and_copy_button():
    html = markdown.to_html("```python\nx = 1 < 2\n```")
    assert "<figcaption><span>python</span><button" in html
    assert '<span class="n">x</span>' in html and "&lt;" in html


def test_math_is_mathml_and_falls_back_to_its_source():
    assert "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>" in markdown.to_html(r"$\frac{1}{2}$")
    assert '<math display="block">' in markdown.to_html("$$\nx\n$$")
    assert '<code class="math">\\frac{</code>' in markdown.to_html(r"$\frac{$")


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](data:text/html,<script>)",
        "[a](vbscript:x)",
        "[a](//evil.example)",
        "![a](data:image/svg+xml;base64,AAAA)",
        "<svg onload=alert(1)>",
        r"$\text{<img src=x onerror=alert(1)>}$",
        r"$\text{</mtext><a href=javascript:alert(1)>}$ $a<b$",
        r"$\href{javascript:alert(1)}{x}$",
        "```<script>\nx\n```",
        '```py"><img src=x>\nx\n```',
        '[a](http://x "onmouseover=alert(1)")',
    ],
)
def test_hostile_text_stays_text(source):
    html = markdown.to_html(source)
    for forbidden in ("<script", "<img", "<svg", 'href="javascript', 'href="data', 'href="//', "onmouseover"):
        assert forbidden not in html.lower()


def test_images_become_links_and_links_open_apart():
    html = markdown.to_html("![chart](https://example.org/a.png)")
    link = '<a href="https://example.org/a.png" target="_blank" rel="noopener noreferrer">chart</a>'
    assert html == f"<p>{link}</p>\n"


def test_blocks_join_to_the_whole():
    text = "# a\n\nb [l]\n\n- x\n- y\n\n```\nopen\n\n[l]: http://example.org\n"
    blocks = markdown.parse(text)
    assert [(b.start, b.end) for b in blocks] == [(0, 1), (2, 3), (4, 7), (7, 11)]
    assert "".join(b.html for b in blocks) == markdown.to_html(text)


@pytest.mark.parametrize("source", [">" * 20_000 + "deep", "x" * 1_000_000])
def test_extreme_text_is_shown_as_written(source):
    html = markdown.to_html(source)
    assert html.startswith('<pre class="plain"')
    assert unescape(re.sub(r"<pre[^>]*>\n|</pre>", "", html)) == source
