"""Markdown of models and users to HTML that is safe to show.

Three lines of defence: raw HTML is text to the parser, every link and image is rendered by rules of
ours, and the result passes an allow-list. Nothing that is rendered makes the browser fetch anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from latex2mathml.converter import convert_to_element as to_element
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.tasklists import tasklists_plugin
from nh3 import Cleaner
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from .text import plain

SCHEMES: Final = frozenset({"http", "https", "mailto"})
MOST_CHARACTERS: Final = 400_000  # longer text is shown as it is written
MOST_BRACKETS: Final = 8_000  # each may begin a link, which costs more than any other mark; more are shown as written
PART_CHARACTERS: Final = 20_000
MOST_HIGHLIGHTED: Final = 60_000  # longer code is shown without colours
MOST_MATH: Final = 2_000
_DEEPEST: Final = 60
_TOP_HEADING: Final = 4  # a message stands under the headings of the page, of its pane and of its turn


class Block(NamedTuple):
    """A top-level block: the HTML of the source lines `[start, end)`, counted from 0."""

    start: int
    end: int
    html: SafeString


def to_html(text: str) -> SafeString:
    """The whole text rendered: the blocks of `parse`, joined."""
    return mark_safe("".join(block.html for block in parse(text)))


def parse(text: str, context: dict[str, Any] | None = None) -> list[Block]:
    """The top-level blocks of `text`, in order. A link definition anywhere in the text holds for all of it.

    Where `text` continues another one, `context` is what that one left: it is changed to what both leave.
    """
    text = plain(text)
    if len(text) > MOST_CHARACTERS or text.count("[") > MOST_BRACKETS:
        return as_written(text)
    parser = _parser()
    env: dict[str, Any] = {} if context is None else context
    tokens = parser.parse(text, env)
    if any(token.level >= _DEEPEST for token in tokens):  # the parser drops what is nested deeper
        return as_written(text)
    return [_block(parser, group, env) for group in _groups(tokens)]


def as_written(text: str) -> list[Block]:
    """`text` without any rendering."""
    blocks, line = [], 0
    for part in parts(text):
        below = line + part.count("\n")
        blocks.append(Block(line, below + 1, written(part)))
        line = below
    return blocks


def parts(text: str) -> list[str]:
    """`text` in pieces that a browser lays out quickly, cut at line breaks if possible; more of it changes the last."""
    out, at = [], 0
    while len(text) - at > PART_CHARACTERS:
        end = at + PART_CHARACTERS
        end = text.rfind("\n", at, end) + 1 or end
        out.append(text[at:end])
        at = end
    return [*out, text[at:]]


def written(part: str) -> SafeString:
    return mark_safe(f'<pre class="plain">\n{escape(part)}</pre>')  # browsers drop a first line break in it


def _block(parser: MarkdownIt, tokens: Sequence[Token], env: EnvType) -> Block:
    start, end = tokens[0].map or (0, 0)
    rendered = parser.renderer.render(tokens, parser.options, env)
    return Block(start, end, mark_safe(_cleaner().clean(rendered)))


def _groups(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Runs of tokens that make one top-level block each."""
    group: list[Token] = []
    depth = 0
    for token in tokens:
        group.append(token)
        depth += token.nesting
        if depth == 0:
            yield group
            group = []


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark", {"html": False, "linkify": True, "maxNesting": _DEEPEST + 1}, renderer_cls=_Renderer
    )
    parser.enable(["table", "strikethrough", "linkify"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    for rule in ("math_inline", "math_inline_double", "math_block"):
        parser.add_render_rule(rule, getattr(_Renderer, rule))
    parser.use(tasklists_plugin)
    parser.core.ruler.push("headings", _set_heading_levels)
    parser.validateLink = _is_safe_url  # type: ignore[method-assign]
    assert parser.linkify is not None
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})  # main.py is no host
    return parser


def _is_safe_url(url: str) -> bool:
    if url.startswith("#"):
        return True
    try:
        return urlsplit(url.strip()).scheme.lower() in SCHEMES
    except ValueError:
        return False


def _set_heading_levels(state: StateCore) -> None:
    """Headings start below those of the page and skip no level; the class keeps the one that was written."""
    previous = state.env.get("heading", _TOP_HEADING - 1)
    level = previous
    for token in state.tokens:
        if token.type == "heading_open":
            level = min(int(token.tag[1]) + _TOP_HEADING - 1, previous + 1, 6)
            token.attrSet("class", token.tag)
            previous = level
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
    state.env["heading"] = previous


class _Renderer(RendererHTML):
    """markdown-it's renderer with rules of ours for what reaches outside, scrolls or needs a name."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        return code(token.content, language)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return code(tokens[idx].content)

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<a{_link_attributes(str(tokens[idx].attrGet('href')))}>"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A link: a picture from elsewhere would tell its server who reads this, and when."""
        token = tokens[idx]
        alt = self.renderInlineAsText(token.children or [], options, env).strip()
        return f"<a{_link_attributes(str(token.attrGet('src')))}>{escape(alt or 'image')}</a>"

    def html_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """The check box of a task; raw HTML never becomes a token."""
        done = "checked" in tokens[idx].content
        name, sign = ("done", "☑") if done else ("to do", "☐")
        return f'<span class="task" role="img" aria-label="{name}">{sign}</span>'

    def math_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return math(tokens[idx].content, "inline")

    math_inline_double = math_inline

    def math_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<div class="math" tabindex="0">{math(tokens[idx].content, "block")}</div>\n'

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="table" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _cell(tokens[idx])

    td_open = th_open


def code(text: str, language: str = "") -> str:
    """A code block with its language and a copy button."""
    label = escape(language)
    head = f'<figcaption><span>{label}</span><button type="button" class="copy" data-copy="code">Copy</button>'
    body = f'<pre tabindex="0"><code>{_highlighted(text, language)}</code></pre>'
    return f'<figure class="code">{head}</figcaption>{body}</figure>\n'


def math(source: str, display: str) -> str:
    """MathML, or the source as it is written where it cannot be converted."""
    try:
        if len(source) > MOST_MATH:
            raise ValueError("too long")
        return _mathml(source.strip(), display)
    except Exception:  # the converter raises many kinds, IndexError and KeyError among them
        return f'<code class="math">{escape(source)}</code>'


def _mathml(source: str, display: str) -> str:
    """MathML serialised here: the converter's own text output leaves `<` of the source unescaped."""
    root = to_element(source, display=display)
    for element in root.iter():
        if element.text:
            element.text = unescape(element.text)
    return ElementTree.tostring(root, encoding="unicode")


def _highlighted(text: str, language: str) -> str:
    if not language or len(text) > MOST_HIGHLIGHTED:
        return str(escape(text))
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return str(escape(text))
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def _link_attributes(href: str) -> str:
    outside = "" if href.startswith("#") else ' target="_blank"'
    return f' href="{escape(href)}"{outside} rel="noopener noreferrer"'


def _cell(token: Token) -> str:
    """An opening cell whose alignment is a class: inline styles are not allowed on the page."""
    style = str(token.attrGet("style") or "")
    return f'<{token.tag} class="{style.removeprefix("text-align:")}">' if style else f"<{token.tag}>"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MATHML: Final = _words(
    "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom menclose "
    "msub msup msubsup munder mover munderover mmultiscripts mtable mtr mtd"
)
_MATHML_ATTRIBUTES: Final = _words(
    "display displaystyle mathvariant mathsize stretchy fence form separator lspace rspace minsize maxsize accent "
    "accentunder linethickness columnalign columnlines rowlines rowspacing columnspacing columnspan scriptlevel "
    "notation width height depth voffset movablelimits"
)
_TAGS: Final = _words(
    "a p br hr em strong s code pre blockquote ul ol li h4 h5 h6 table thead tbody tr th td "
    "figure figcaption button div span"
)
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "a": {"href", "target"},
    "ol": {"start"},
    "button": {"type", "data-copy"},
    "span": {"role", "aria-label"},
    "pre": {"tabindex"},
    "div": {"tabindex"},
    **{tag: set(_MATHML_ATTRIBUTES) for tag in _MATHML},
}


@cache
def _cleaner() -> Cleaner:
    attributes: dict[str, Any] = {tag: _ATTRIBUTES.get(tag, set()) | {"class"} for tag in _TAGS}
    attributes |= {tag: _ATTRIBUTES[tag] for tag in _MATHML}
    return Cleaner(
        tags=set(_TAGS | _MATHML),
        attributes=attributes,
        url_schemes=set(SCHEMES),
        link_rel="noopener noreferrer",
        strip_comments=True,
    )
