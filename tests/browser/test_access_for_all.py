"""Every page and state by axe, in both themes and at three widths; nothing scrolls sideways."""

import pytest
from axe_playwright_python.sync_playwright import Axe

WIDTHS = {"desktop": (1440, 900), "tablet": (900, 1100), "phone": (320, 640)}

RICH = (
    "[[think:Let me think.]][[say:# Heading\n\n### Deeper\n\n| a | b |\n|--|--:|\n| 1 | 2 |\n\n"
    "```python\nx = 1\n```\n\n"
    "- [x] done\n\nA [link](https://example.org) and $x^2$.]] Show everything"
)


@pytest.fixture(scope="module")
def story(product):
    """A session with every kind of entry, and a side that was merged."""
    _, main = product.call("POST", "/api/sessions", {"title": "Port the reader"})
    for text in (RICH, "[[status:400]] fail", "[[length]][[say:A long story]] cut"):
        product.call("POST", f"/api/sessions/{main['id']}/messages", {"text": text})
        product.wait_idle(main["id"])
    _, side = product.call("POST", f"/api/sessions/{main['id']}/fork", {"side": True, "title": "why?", "text": "why?"})
    product.wait_idle(side["id"])
    product.call("POST", f"/api/sessions/{side['id']}/merge", {"text": "**Because** pairs stay whole."})
    _, open_side = product.call("POST", f"/api/sessions/{main['id']}/fork", {"side": True, "text": "and now?"})
    product.wait_idle(open_side["id"])
    return {"main": main["id"], "merged": side["id"], "open": open_side["id"]}


PAGES = {
    "main": "/s/{main}/",
    "main and side": "/s/{main}/?side={open}",
    "merged side": "/s/{main}/?side={merged}",
    "draft": "/s/{main}/?draft=side",
    "new": "/new/",
    "sessions": "/sessions/",
    "nothing found": "/sessions/?q=zzzz",
    "settings": "/s/{merged}/settings",
    "delete": "/s/{main}/delete",
    "review": "/s/{open}/review?own=1",
    "inherited": "/s/{open}/inherited",
    "sign in": "/accounts/login/",
    "not here": "/s/00000000000000000000000000/",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe(open_page, story, witness, name, scheme):
    witness.allowed.add("status of 404")
    page = open_page(PAGES[name].format(**story), color_scheme=scheme)
    widths = WIDTHS if scheme == "light" else ["desktop"]  # a theme changes colours, a width the layout
    for width, height in (WIDTHS[name] for name in widths):
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_with_a_dialog_and_everything_open(open_page, story, scheme):
    page = open_page(f"/s/{story['main']}/?side={story['open']}", color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert violations(page) == []
    page.locator("#main a.more").click()
    page.locator("dialog[open] .sheet").wait_for()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keys").click()
    page.locator("dialog[open] .keys").wait_for()
    assert violations(page) == []


def violations(page):
    return [
        (found["id"], [node["html"][:200] for node in found["nodes"]])
        for found in Axe().run(page).response["violations"]
    ]
