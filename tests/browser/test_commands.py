"""Slash commands with completion, and the palette: all by keys, as a screen reader is told."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect


@pytest.fixture
def main(talk):
    return talk("hello", title="Port the reader")


def active(page, selector):
    """The option that the focused field names as its active one."""
    return page.locator(f"#{page.locator(selector).get_attribute('aria-activedescendant')}")


def violations(page):
    return [found["id"] for found in Axe().run(page).response["violations"]]


def test_completion_by_keys(open_page, main):
    page = open_page(f"/s/{main}/")
    text = f"#text-{main}"
    page.locator(text).press_sequentially("/")
    listed = page.get_by_role("listbox", name="Commands")
    expect(listed.get_by_role("option")).to_have_count(6)
    expect(listed.locator("[aria-selected=true]")).to_have_text("/btw questionAsk on the side, also while a turn runs")
    assert violations(page) == []
    page.keyboard.press("ArrowUp")
    expect(active(page, text)).to_contain_text("/rename")
    page.keyboard.press("Tab")
    expect(page.locator(text)).to_have_value("/rename ")
    expect(listed).to_be_hidden()
    page.keyboard.type("By keys")
    page.keyboard.press("Enter")
    expect(page.locator(f"#title-{main}")).to_have_text("By keys")
    expect(page.locator(text)).to_have_value("")


def test_completion_closes_and_leaves_what_was_typed(open_page, main):
    page = open_page(f"/s/{main}/")
    page.locator(f"#text-{main}").press_sequentially("/st")
    listed = page.get_by_role("listbox", name="Commands")
    expect(listed.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(listed).to_be_hidden()
    expect(page.locator(f"#text-{main}")).to_have_value("/st")
    page.locator(f"#text-{main}").press_sequentially("range")
    expect(listed).to_be_hidden()


def test_a_refused_command_stays(open_page, main, witness):
    witness.allowed.add("status of 422")
    page = open_page(f"/s/{main}/")
    page.locator(f"#text-{main}").fill("/rename ")
    page.keyboard.press("Enter")
    expect(page.locator("#main .composer .refusal")).to_have_text("/rename needs a title after it.")
    expect(page.locator(f"#text-{main}")).to_have_value("/rename ")


def test_palette_finds_sessions_on_the_server(open_page, talk, main):
    other = talk("hello", title="Index layout")
    page = open_page(f"/s/{main}/")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Session or action")).to_be_focused()
    page.keyboard.type("index lay")
    expect(page.locator("#palette-list b")).to_have_text(["Index layout"])
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.locator(f"#title-{other}")).to_be_visible()
    assert page.url.endswith(f"/s/{other}/")


def test_palette_does_what_the_page_can(open_page, main):
    page = open_page(f"/s/{main}/")
    page.keyboard.press("Control+k")
    page.locator("#palette").fill("on the side")
    expect(active(page, "#palette")).to_contain_text("Ask on the side")
    page.keyboard.press("Enter")
    expect(page.locator("#text-draft")).to_be_focused()


def test_palette_says_when_nothing_is_found(open_page, main):
    page = open_page(f"/s/{main}/")
    page.keyboard.press("Control+k")
    page.locator("#palette").fill("zzzz")
    expect(page.locator("dialog .found")).to_have_text("Nothing found")
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
