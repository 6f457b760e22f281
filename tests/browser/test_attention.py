"""What happens in the background shows in the title and the icon; the browser notifies only where it was asked to."""

from playwright.sync_api import expect

HIDDEN = "Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true })"
NOTIFIED = """window.said = [];
window.Notification = class {
    static permission = 'granted';
    static async requestPermission() { return 'granted'; }
    constructor(title, { body }) { said.push(`${title} ${body}`); }
};"""


def icon(page):
    return page.locator("link[rel=icon]").get_attribute("href")


def test_a_session_that_ends_elsewhere_marks_title_and_icon(open_page, product, talk):
    here, there = talk("hello", title="Here"), talk("hello", title="There")
    page = open_page(f"/s/{here}/")
    expect(page.locator("#tree[data-connection=live]")).to_be_visible()
    plain = icon(page)
    product.call("POST", f"/api/sessions/{there}/messages", {"text": "again"})
    expect(page).to_have_title("(1) Here · Sidechat")
    assert icon(page) != plain
    page.evaluate("there => htmx.ajax('GET', `/s/${there}/`, { target: '#panes' })", there)
    expect(page).to_have_title("There · Sidechat")
    assert icon(page) == plain


def test_what_is_looked_at_marks_nothing(open_page, product, talk):
    here = talk("hello", title="Looked at")
    page = open_page(f"/s/{here}/")
    expect(page.locator("#tree[data-connection=live]")).to_be_visible()
    page.locator(f"#text-{here}").fill("again")
    page.keyboard.press("Enter")
    expect(page.locator("#main .turn-end")).to_have_count(2)
    expect(page).to_have_title("Looked at · Sidechat")


def test_browser_notifies_where_it_was_asked_to(open_page, product, talk):
    here = talk("hello", title="Far away")
    page = open_page("about:blank")
    page.add_init_script(f"window.away = false; {HIDDEN}; {NOTIFIED}")
    page.goto("/account/")
    page.get_by_label("In this browser, when a session needs me").check()
    page.goto(f"/s/{here}/")
    expect(page.locator("#tree[data-connection=live]")).to_be_visible()
    page.evaluate("window.away = true")
    product.call("POST", f"/api/sessions/{here}/messages", {"text": "[[hang]] again"})
    expect(page.locator(f"#row-{here} .said")).to_have_text("running")
    product.call("POST", f"/api/sessions/{here}/stop")
    expect(page).to_have_title("(1) Far away · Sidechat")
    assert page.evaluate("said") == ["Far away has stopped"]
    page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page).to_have_title("Far away · Sidechat")
