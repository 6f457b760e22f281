"""All hostile payloads at once, wherever a log or a user puts text: nothing runs, is fetched or overflows."""

import json

import pytest
from playwright.sync_api import expect

from tests.hostile.payloads import PAYLOADS

UTF8 = [payload.encode("utf-8", "replace").decode() for payload in PAYLOADS]
SHARES = 4  # pages on which the payloads are spread
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
STRAYS = """[...document.querySelectorAll('.transcript *, #rows *, .bar *')].filter(e =>
    /^(script|img|iframe|object|embed|style|link|meta|base|video|audio|svg|form)$/i.test(e.tagName)
    || [...e.attributes].some(a => /^on|^style$|^srcdoc$/i.test(a.name))
    || /^(javascript|data|vbscript):/i.test(e.href || '')).map(e => e.outerHTML.slice(0, 200))"""
# What stands beyond the column, where nothing bounds it.
CUT_OFF = """(() => {
    const scroll = document.querySelector('#main .scroll'), right = scroll.getBoundingClientRect().right;
    const bounded = e => getComputedStyle(e).overflowX !== 'visible';
    const reached = e => e !== scroll && (bounded(e) || reached(e.parentElement));
    return [...scroll.querySelectorAll('*')]
        .filter(e => e.getBoundingClientRect().right > right + 1 && !reached(e)).map(e => e.outerHTML.slice(0, 160));
})()"""


def told(payloads):
    """A conversation that has each payload as an answer, as a tool's name, arguments and output, and as a path."""
    messages = [{"role": "user", "content": payloads[0]}]
    for number, payload in enumerate(payloads):
        function = {"name": payload[:60] or "x", "arguments": json.dumps({"path": payload[:300]})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": payload, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": payload},
        ]
    return {"model": payloads[1][:80], "messages": [*messages, {"role": "assistant", "content": "The end."}]}


@pytest.mark.parametrize("share", range(SHARES))
def test_answers_and_tools(open_page, product, share):
    _, imported = product.call("POST", "/api/import", told(UTF8[share::SHARES]))
    session = imported["sessions"][0]["id"]
    page = open_page(f"/s/{session}/")
    page.evaluate(OPEN_ALL)
    expect(page.get_by_text("The end.")).to_be_visible()
    assert page.locator("#main .tool").count() >= len(UTF8) // SHARES
    assert page.evaluate(STRAYS) == []
    assert page.title().endswith("· Sidechat")
    for width in (1440, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT_OFF) == []


def test_titles_notes_and_messages(open_page, product, talk):
    main = talk("hello")
    titles = [payload[:200] for payload in UTF8[::12]]
    for title in titles:
        status, made = product.call("POST", "/api/sessions", {"title": title})
        assert status in (201, 400, 422), made
    _, side = product.call(
        "POST", f"/api/sessions/{main}/fork", {"side": True, "title": UTF8[9][:200], "text": UTF8[0]}
    )
    product.wait_idle(side["id"])
    product.call("POST", f"/api/sessions/{side['id']}/merge", {"text": "\n\n".join(UTF8[:90:6])[:1900]})
    page = open_page(f"/s/{main}/?side={side['id']}")
    page.evaluate(OPEN_ALL)
    expect(page.locator("#main .note")).to_be_visible()
    assert page.evaluate(STRAYS) == []
    for width in (1440, 1000, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
