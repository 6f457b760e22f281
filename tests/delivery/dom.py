"""As much of a DOM as a client of the HTML frames needs."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

from sidechat_web.render.stream import Append, Rewrite, Update

_VOID = frozenset({"br", "hr", "img", "input", "mspace"})


class Node:
    def __init__(self, tag: str, attributes: tuple = ()) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Node | str] = []

    def __getitem__(self, name: str) -> str:
        return dict(self.attributes)[name] or ""

    @property
    def elements(self) -> list[Node]:
        return [child for child in self.children if isinstance(child, Node)]

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def last(self, in_pre: bool) -> Node | None:
        """The last child if it is an element; space between elements does not count, but in `pre` it does."""
        if not in_pre and self.children and isinstance(self.children[-1], str) and not self.children[-1].strip():
            self.children.pop()
        return self.children[-1] if self.children and isinstance(self.children[-1], Node) else None

    def add_text(self, text: str) -> None:
        if self.children and isinstance(self.children[-1], str):
            self.children[-1] += text
        else:
            self.children.append(text)

    def find(self, tag: str, **attributes: str) -> Node | None:
        """The first element below with this tag and these attributes."""
        for child in self.elements:
            if child.tag == tag and attributes.items() <= dict(child.attributes).items():
                return child
            if found := child.find(tag, **attributes):
                return found
        return None

    def __repr__(self) -> str:
        inner = "".join(escape(child) if isinstance(child, str) else repr(child) for child in self.children)
        given = "".join(f' {name}="{escape(value or "")}"' for name, value in self.attributes)
        return f"<{self.tag}{given}>{inner}</{self.tag}>"


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.path = [Node("root")]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, tuple(attrs))
        self.path[-1].children.append(node)
        if tag not in _VOID:
            self.path.append(node)

    def handle_endtag(self, tag):
        if tag not in _VOID:
            assert self.path[-1].tag == tag, f"</{tag}> closes <{self.path[-1].tag}>"
            self.path.pop()

    def handle_data(self, data):
        self.path[-1].add_text(data)


def parsed(html: str) -> Node:
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert len(parser.path) == 1, f"<{parser.path[-1].tag}> is not closed"
    return parser.path[0]


class Client:
    """Follows the updates of one streaming block as the browser does."""

    def __init__(self) -> None:
        self.root = Node("root")
        self.done = 0

    def apply(self, updates: list[Update]) -> None:
        for update in updates:
            if isinstance(update, Rewrite):
                self._rewrite(update)
            else:
                self._append(update)

    @property
    def blocks(self) -> list[str]:
        return [repr(node) for node in self.root.elements]

    def _rewrite(self, update: Rewrite) -> None:
        assert update.keep in (0, self.done), "finished blocks are never rewritten, unless all are"
        kept = self.root.elements[: update.keep]
        self.root.children = [*kept, *parsed(update.html).elements]
        self.done = update.done
        assert self.done <= len(self.root.children)

    def _append(self, update: Append) -> None:
        node, in_pre = self.root, False
        while (last := node.last(in_pre)) is not None:
            node, in_pre = last, in_pre or last.tag == "pre"
        node.add_text(update.text)
