"""What streams show in a browser: the same as a reload, without taking anything from the reader, over any cut."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import until
from tests.delivery.corpus import ANSWER, CASES

ITEMS = "[...document.querySelectorAll('#main .transcript > :not(.older)')].map(item => item.outerHTML)"
CUT = """
    const Real = WebSocket, open = [];
    WebSocket = class extends Real { constructor(url) { super(url); open.push(this); } };
    setInterval(() => { for (const socket of open.splice(0)) socket.close(); }, %d);
"""
LONG = "\n\n".join(f"Paragraph {n} with **strong** words and `code`." for n in range(60))


def scripted(text: str, every: int = 0) -> str:
    return f"[[every:{every}]][[say:{text}]]" if every else f"[[say:{text}]]"


def new(product) -> str:
    return product.call("POST", "/api/sessions", {"title": "Streams"})[1]["id"]


def say(product, session: str, text: str) -> None:
    assert product.call("POST", f"/api/sessions/{session}/messages", {"text": text})[0] == 202


def wait_live(page: Page, place: str = "main") -> None:
    expect(page.locator(f"#{place} .pane")).to_have_attribute("data-connection", "live")


def wait_ended(page: Page, turn: int = 1) -> None:
    expect(page.locator(f'#main .turn-end[data-turn="{turn}"]')).to_be_attached(timeout=60_000)
    expect(page.locator("#main .pane")).to_have_attribute("data-status", "idle")


def same_after_reload(page: Page) -> None:
    shown = page.evaluate(ITEMS)
    page.reload()
    wait_live(page)
    again = page.evaluate(ITEMS)
    assert again == shown[-len(again) :]


def test_streamed_markdown_is_what_a_reload_shows(open_page, product):
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    texts = [text for text in [*CASES, LONG] if text.strip() and not set(text) & set("\x1b\ud83d")]
    for turn, text in enumerate(texts, 1):
        say(product, session, scripted(text, 1))
        wait_ended(page, turn)
    same_after_reload(page)


def test_reasoning_streams_and_stays_open(open_page, product):
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    say(product, session, f"[[think:Let me *think* about that for a while.]]{scripted(ANSWER, 10)}")
    reasoning = page.locator("#main details.reasoning")
    reasoning.locator("summary").click()
    expect(reasoning.locator("em")).to_have_text("think")
    wait_ended(page)
    expect(reasoning).to_have_attribute("open", "")
    reasoning.locator("summary").click()
    same_after_reload(page)


def test_selection_focus_and_draft_stay(open_page, product):
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    say(product, session, scripted(ANSWER, 20))
    expect(page.locator("#main .answer")).to_contain_text("as lines arrive")
    page.locator("#main textarea").press_sequentially("typed while it streams")
    page.evaluate(
        """() => {
            const strong = document.querySelector("#main .answer strong").firstChild;
            getSelection().setBaseAndExtent(strong, 0, strong, strong.length);
        }"""
    )
    wait_ended(page)
    assert page.evaluate("getSelection().toString()") == "as lines arrive"
    expect(page.locator("#main textarea")).to_be_focused()
    expect(page.locator("#main textarea")).to_have_value("typed while it streams")


def test_the_end_is_followed_until_the_reader_looks_elsewhere(open_page, product):
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    distance = "(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('#main .scroll'))"
    say(product, session, scripted(LONG, 10))
    expect(page.locator("#main .answer")).to_contain_text("Paragraph 25")
    until(page, f"{distance} < 3")
    page.locator("#main .scroll").hover()
    page.mouse.wheel(0, -600)
    until(page, f"{distance} > 300")
    top = page.evaluate("document.querySelector('#main .scroll').scrollTop")
    expect(page.locator("#main .answer")).to_contain_text("Paragraph 40")
    assert page.evaluate("document.querySelector('#main .scroll').scrollTop") == top
    page.get_by_role("button", name="To the end").click()
    wait_ended(page)
    until(page, f"{distance} < 3")
    expect(page.get_by_role("button", name="To the end")).to_be_hidden()


def test_server_restart_is_a_cut(open_page, product, witness):
    witness.allowed |= {"WebSocket connection", "ERR_CONNECTION_REFUSED", "Failed to load resource"}
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    say(product, session, scripted(LONG, 30))
    expect(page.locator("#main .answer")).to_contain_text("Paragraph 3")
    product.kill()
    expect(page.locator("#main .pane")).to_have_attribute("data-connection", "reconnecting")
    expect(page.locator("#main .connection")).to_have_text("reconnecting …")
    product.start()
    wait_live(page)
    wait_ended(page)
    expect(page.locator("#main .connection")).to_have_text("live")
    expect(page.locator("#main .turn-end")).to_contain_text("stopped")
    same_after_reload(page)


def test_offline_is_said_and_heals(open_page, product, witness):
    witness.allowed |= {"WebSocket connection", "ERR_INTERNET_DISCONNECTED", "htmx:"}
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    say(product, session, scripted(LONG, 8))
    page.context.set_offline(True)
    expect(page.locator("#main .connection")).to_contain_text("offline")
    page.context.set_offline(False)
    wait_live(page)
    wait_ended(page)
    same_after_reload(page)


def test_deleted_session_is_closed(open_page, product, witness):
    witness.allowed.add("404")
    session = new(product)
    page = open_page(f"/s/{session}/")
    wait_live(page)
    product.call("DELETE", f"/api/sessions/{session}")
    expect(page.locator("#main .connection")).to_contain_text("closed")


def test_each_pane_has_a_socket_of_its_own(open_page, product, talk):
    main = talk("first")
    _, side = product.call("POST", f"/api/sessions/{main}/fork", {"side": True, "text": "why?"})
    _, second = product.call("POST", f"/api/sessions/{main}/fork", {"side": True, "text": "how?"})
    product.wait_idle(side["id"], second["id"])
    page = open_page(f"/s/{main}/")
    wait_live(page)
    opened: list[str] = []
    closed: list[str] = []

    def watch(socket) -> None:
        name = re.sub(r"\?.*|^.*/ws/", "", socket.url)
        opened.append(name)
        socket.on("close", lambda _: closed.append(name))

    page.on("websocket", watch)
    page.goto(f"/s/{main}/?side={side['id']}")
    wait_live(page)
    wait_live(page, "side")
    assert sorted(opened) == sorted(["tree/", f"sessions/{main}/", f"sessions/{side['id']}/"])
    opened.clear(), closed.clear()
    page.locator("#side .tabs a", has_text=re.compile("how")).first.click()
    expect(page.locator("#side .pane")).to_have_attribute("data-session", second["id"])
    wait_live(page, "side")
    assert opened == [f"sessions/{second['id']}/"]
    page.locator("#side a.close").click()
    expect(page.locator("#side .pane")).to_have_count(0)
    page.wait_for_timeout(200)
    assert closed == [f"sessions/{side['id']}/", f"sessions/{second['id']}/"]


def test_tree_shows_what_happens_elsewhere(open_page, product):
    session = new(product)
    page = open_page("/new/")
    expect(page.locator("#tree")).to_have_attribute("data-connection", "live")
    say(product, session, scripted("a b c d e f g h", 80))
    row = page.locator(f"#row-{session}")
    expect(row).to_contain_text("running")
    expect(row).not_to_contain_text("running")
    other = new(product)
    expect(page.locator(f"#row-{other}")).to_be_visible()
    product.call("DELETE", f"/api/sessions/{other}")
    expect(page.locator(f"#row-{other}")).to_have_count(0)


@pytest.mark.parametrize("seed", range(3))
def test_cut_sockets_lose_and_double_nothing(open_page, product, seed):
    session = new(product)
    page = open_page(f"/s/{session}/")
    page.add_init_script(CUT % (150 + seed * 90))
    page.reload()
    say(product, session, scripted(ANSWER, 12))
    wait_ended(page)
    say(product, session, scripted(json.dumps(CASES[3]), 12))
    wait_ended(page, 2)
    fresh = open_page(f"/s/{session}/")
    assert page.evaluate(ITEMS) == fresh.evaluate(ITEMS)
