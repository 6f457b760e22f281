"""The main job in a browser, by mouse and by keyboard: ask on the side while main streams, merge, read the card."""

import pytest
from playwright.sync_api import Page, expect

MAIN_WORDS = " ".join(f"main{n}" for n in range(120))
SIDE_WORDS = " ".join(f"side{n}" for n in range(80))
TELL = f"[[every:40]][[say:{MAIN_WORDS}]] Tell me everything"
WHY = f"[[every:40]][[say:{SIDE_WORDS}]] Why is that?"


@pytest.fixture
def title(request):
    return f"Another {request.node.name}"


@pytest.fixture
def other(talk, title):
    return talk("hello", title=title)


def pane_text(page: Page, place: str) -> str:
    return page.locator(f"#{place} ol.transcript").last.inner_text()


def both_texts(page: Page) -> tuple[str, str]:
    return pane_text(page, "main"), pane_text(page, "side")


def wait_until_said(page: Page, place: str, word: str) -> None:
    """Wait for a word of an answer, or of a note."""
    said = page.locator(f"#{place} :is(.answer, .note)", has_text=word)
    expect(said.first).to_be_visible(timeout=20_000)


def wait_until_idle(page: Page) -> None:
    for pane in page.locator(".pane[data-session]").all():
        expect(pane).to_have_attribute("data-status", "idle", timeout=30_000)
        expect(pane.locator(".status")).to_have_text("Ready")


def no_cross_talk(page: Page) -> None:
    main, side = both_texts(page)
    assert "side3" not in main and "main3" not in side


def same_after_reload(page: Page) -> None:
    shown = both_texts(page)
    page.reload()
    wait_until_said(page, "main", "Handback from")
    assert both_texts(page) == shown


def test_by_mouse(open_page, other, title):
    page = open_page("/new/")
    page.get_by_label("First message").fill(TELL)
    page.get_by_role("button", name="Send").click()
    wait_until_said(page, "main", "main3")
    page.locator("#main a.ask").click()
    expect(page.locator("#side")).to_contain_text("Turn 1 is running and is not included.")
    page.get_by_label("Ask the advisor").fill(WHY)
    page.get_by_role("button", name="Ask", exact=True).click()
    wait_until_said(page, "side", "side3")
    wait_until_said(page, "main", "main9")
    no_cross_talk(page)

    story = page.url
    page.locator(f"#row-{other}").click()
    expect(page.locator("#main h2")).to_have_text(title)
    expect(page.locator("#side .pane")).to_have_count(0)
    page.go_back()
    wait_until_said(page, "side", "side9")
    page.go_forward()
    expect(page.locator("#main h2")).to_have_text(title)
    page.go_back()
    assert page.url == story

    wait_until_said(page, "main", "main119")
    wait_until_said(page, "side", "side79")
    wait_until_idle(page)
    no_cross_talk(page)
    page.get_by_role("button", name="Merge back").click()
    expect(page.locator("#main .note")).to_contain_text("Conclusion:")
    expect(page.locator("#side .mergebar")).to_contain_text("Merged into")
    wait_until_idle(page)

    page.get_by_role("link", name="Close the side panel").click()
    expect(page.locator("#side .pane")).to_have_count(0)
    page.locator("#main .note header a").click()
    wait_until_said(page, "side", "side79")
    assert page.url == story
    same_after_reload(page)


def test_by_keyboard(open_page, other, title):
    page = open_page("/new/")
    page.get_by_label("First message").focus()
    page.keyboard.insert_text(TELL)
    page.keyboard.press("Enter")
    wait_until_said(page, "main", "main3")
    page.keyboard.press("Control+/")
    expect(page.locator("#text-draft")).to_be_focused()
    page.keyboard.insert_text(WHY)
    page.keyboard.press("Enter")
    wait_until_said(page, "side", "side3")
    expect(page.locator("#side .composer textarea")).to_be_focused()

    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_focused()
    page.keyboard.type(title)
    expect(page.locator("#palette-list b")).to_have_text([title])
    page.keyboard.press("Enter")
    expect(page.locator("#main h2")).to_have_text(title)
    page.go_back()
    wait_until_said(page, "side", "side79")
    wait_until_said(page, "main", "main119")
    wait_until_idle(page)
    no_cross_talk(page)

    page.keyboard.press("Control+/")
    expect(page.locator("#side .composer textarea")).to_be_focused()
    tab_back_to(page, "Merge back")
    page.keyboard.press("Enter")
    expect(page.locator("#main .note")).to_contain_text("Conclusion:")
    wait_until_idle(page)
    same_after_reload(page)

    page.keyboard.press("Control+/")
    page.keyboard.press("Control+/")
    expect(page.locator("#main .composer textarea")).to_be_focused()
    tab_back_to(page, "Retract")
    page.keyboard.press("Enter")
    expect(page.locator("#main .note.retracted")).to_have_count(1)
    expect(page.locator("#main .composer [role=status]").first).to_have_text("Ready")


def test_aside_by_command_while_main_runs(open_page, talk):
    session = talk("hello")
    page = open_page(f"/s/{session}/")
    box = page.locator(f"#text-{session}")
    box.fill(TELL)
    box.press("Enter")
    wait_until_said(page, "main", "main3")
    box.fill(f"/btw {WHY}")
    box.press("Enter")
    wait_until_said(page, "side", "side3")
    expect(box).to_have_value("")
    no_cross_talk(page)


def test_stop_keeps_what_was_written(open_page, talk):
    session = talk("hello")
    page = open_page(f"/s/{session}/")
    page.locator(f"#text-{session}").fill(TELL)
    page.locator(f"#text-{session}").press("Enter")
    wait_until_said(page, "main", "main3")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#main .turn-end").last).to_contain_text("Stopped by you.")
    shown = pane_text(page, "main")
    assert "main3" in shown
    page.reload()
    assert pane_text(page, "main") == shown


def test_queued_message_runs_after_the_turn(open_page, talk):
    session = talk("hello")
    page = open_page(f"/s/{session}/")
    box = page.locator(f"#text-{session}")
    box.fill(TELL)
    box.press("Enter")
    wait_until_said(page, "main", "main3")
    box.fill("[[say:second answer]] And then?")
    box.press("Enter")
    expect(page.locator("#main .queue")).to_contain_text("And then?")
    wait_until_said(page, "main", "second answer")
    expect(page.locator("#main .queue")).to_have_count(0)


def test_note_waits_for_a_running_main_and_arrives_once(open_page, product, talk):
    session = talk("hello")
    _, side = product.call("POST", f"/api/sessions/{session}/fork", {"side": True, "text": "why?"})
    product.wait_idle(side["id"])
    page = open_page(f"/s/{session}/?side={side['id']}")
    page.locator(f"#text-{session}").fill(TELL)
    page.locator(f"#text-{session}").press("Enter")
    wait_until_said(page, "main", "main3")
    page.get_by_role("button", name="Merge back").dblclick()
    expect(page.locator("#main .pending")).to_contain_text("waits for this turn to end")
    expect(page.locator("#main .note")).to_have_count(1, timeout=30_000)
    expect(page.locator("#main .pending")).to_have_count(0)


def tab_back_to(page: Page, label: str) -> None:
    for _ in range(12):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == label:
            return
    raise AssertionError(f"no control named {label!r} before this one")
