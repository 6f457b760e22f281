"""On paper stands the conversation, dark or light alike, and nothing to press."""

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print(open_page, talk, scheme):
    session = talk(*(f"[[say:answer {n}]] question {n}" for n in range(1, 7)), title="On paper")
    page = open_page(f"/s/{session}/", color_scheme=scheme)
    page.emulate_media(media="print", color_scheme=scheme)
    expect(page.get_by_text("answer 1", exact=True)).to_be_visible()
    for hidden in ("#tree", "#main .composer", "#main .acts", "#main .bar .btn"):
        expect(page.locator(hidden).first).to_be_hidden()
    height, shown = page.evaluate(
        "(() => { const s = document.querySelector('#main .scroll'); return [s.scrollHeight, s.clientHeight] })()"
    )
    assert height == shown
    assert page.evaluate("getComputedStyle(document.querySelector('.answer')).color") == "rgb(0, 0, 0)"
