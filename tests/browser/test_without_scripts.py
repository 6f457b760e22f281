"""Reading, navigating, sending, asking on the side and merging need no JavaScript."""

from playwright.sync_api import Page, expect

PLAIN = {"java_script_enabled": False}


def reload_until(page: Page, selector: str, text: str) -> None:
    for _ in range(60):
        if page.locator(selector, has_text=text).count():
            return
        page.wait_for_timeout(250)
        page.reload()
    expect(page.locator(selector)).to_contain_text(text)


def test_whole_story(open_page, product):
    page = open_page("/new/", **PLAIN)
    page.get_by_label("First message").fill("[[say:Pairs stay whole.]] Why cut there?")
    page.get_by_role("button", name="Send").click()
    reload_until(page, "#main .turn-end", "Copy")
    expect(page.locator("#main .answer")).to_have_text("Pairs stay whole.")

    page.locator("#main").get_by_role("link", name="Ask on the side", exact=True).first.click()
    expect(page.locator("#side")).to_contain_text("Knows everything up to turn 1.")
    page.get_by_label("Ask the advisor").fill("[[say:It is safe.]] Is it safe?")
    page.get_by_role("button", name="Ask", exact=True).click()
    reload_until(page, "#side .turn-end", "Copy")

    page.get_by_role("button", name="Merge back").click()
    reload_until(page, "#main .note", "Handback from")
    expect(page.locator("#main .note")).to_contain_text("Conclusion:")
    expect(page.locator("#side .mergebar")).to_contain_text("Merged into")

    page.locator("#main .note").get_by_role("button", name="Retract").click()
    expect(page.locator("#main .note")).to_contain_text("retracted")

    page.get_by_label("Search sessions").fill("pairs")
    page.get_by_label("Search sessions").press("Enter")
    expect(page.locator("#rows a.row").first).to_contain_text("Pairs")


def test_refused_text_comes_back(open_page, talk, witness):
    witness.allowed.add("status of 422")
    page = open_page(f"/s/{talk('hello')}/", **PLAIN)
    page.locator("#main textarea").evaluate("area => area.required = false")
    page.locator("#main textarea").fill("   ")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#main .composer .refusal")).to_have_text("Write something first.")


def test_side_can_be_renamed_reviewed_and_deleted(open_page, product, talk):
    main = talk("hello")
    _, side = product.call("POST", f"/api/sessions/{main}/fork", {"side": True, "text": "why?"})
    product.wait_idle(side["id"])
    page = open_page(f"/s/{main}/?side={side['id']}", **PLAIN)
    page.locator("#side a.more").click()
    page.get_by_label("Title").fill("A better name")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#side h2")).to_have_text("A better name")

    page.goto(f"/s/{side['id']}/review?own=1")
    page.locator("#note-text").fill("My **own** note.")
    page.get_by_role("button", name="Merge back").click()
    expect(page.locator("#main .note strong")).to_have_text("own")

    page.locator("#main a.more").click()
    page.get_by_role("link", name="Delete …").click()
    page.get_by_role("button", name="Keep the sides").click()
    page.goto(f"/s/{side['id']}/")
    expect(page.locator("#main .bar")).to_contain_text("parent deleted")
