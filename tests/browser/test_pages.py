"""The pages by mouse and by keyboard: switching, drafts, dialogs, and what is said when something fails."""

import pytest
from playwright.sync_api import expect


@pytest.fixture
def main(talk):
    return talk("[[say:It names **file** and line.]] What is a refusal?", title="Port the reader")


def focused(page):
    return page.evaluate("document.activeElement.id")


def side_of(product, main, text="why?"):
    _, side = product.call("POST", f"/api/sessions/{main}/fork", {"side": True, "text": text})
    product.wait_idle(side["id"])
    return side["id"]


def test_first_page_is_small(open_page, main):
    """Everything that a browser with an empty cache asks for."""
    sizes = {}
    page = open_page("about:blank")
    page.on("requestfinished", lambda request: sizes.update({request.url: request.sizes()["responseBodySize"]}))
    page.goto(f"/s/{main}/", wait_until="networkidle")
    assert sum(sizes.values()) <= 100_000 and len(sizes) <= 12, sizes


def test_panel_opens_as_a_draft_and_closes_when_empty(open_page, main):
    page = open_page(f"/s/{main}/")
    page.keyboard.press("Control+/")
    expect(page.locator("#text-draft")).to_be_focused()
    assert page.url.endswith("?draft=side")
    page.keyboard.press("Escape")
    expect(page.locator("#side .pane")).to_have_count(0)
    expect(page.locator(f"#text-{main}")).to_be_focused()
    assert page.url.endswith(f"/s/{main}/")


def test_escape_keeps_a_panel_with_a_text(open_page, main):
    page = open_page(f"/s/{main}/?draft=side")
    page.locator("#text-draft").fill("half a question")
    page.keyboard.press("Escape")
    expect(page.locator("#text-draft")).to_have_value("half a question")


def test_focus_goes_from_main_to_side_and_back(open_page, product, main):
    side = side_of(product, main)
    page = open_page(f"/s/{main}/?side={side}")
    page.locator(f"#text-{main}").focus()
    page.keyboard.press("Control+/")
    assert focused(page) == f"text-{side}"
    page.keyboard.press("Control+/")
    assert focused(page) == f"text-{main}"


def test_drafts_stay_with_their_session(open_page, talk, main):
    other = talk("hello", title="Another")
    page = open_page(f"/s/{main}/")
    page.locator(f"#text-{main}").fill("for main")
    page.locator(f"#row-{other}").click()
    expect(page.locator(f"#text-{other}")).to_have_value("")
    page.locator(f"#text-{other}").fill("for the other")
    page.go_back()
    expect(page.locator(f"#text-{main}")).to_have_value("for main")
    page.reload()
    expect(page.locator(f"#text-{main}")).to_have_value("for main")
    page.go_forward()
    expect(page.locator(f"#text-{other}")).to_have_value("for the other")


def test_switching_marks_the_row_and_the_title(open_page, talk, main):
    other = talk("hello", title="Another")
    page = open_page(f"/s/{main}/")
    page.locator(f"#row-{other}").click()
    expect(page).to_have_title("Another · Sidechat")
    expect(page.locator("#rows [aria-current]")).to_have_attribute("id", f"row-{other}")
    page.go_back()
    expect(page).to_have_title("Port the reader · Sidechat")
    expect(page.locator("#rows [aria-current]")).to_have_attribute("id", f"row-{main}")


def test_tree_by_keyboard(open_page, main):
    page = open_page(f"/s/{main}/")
    page.locator("#search").focus()
    page.keyboard.type("port the")
    page.keyboard.press("ArrowDown")
    assert focused(page).startswith("row-")
    page.keyboard.press("F2")
    expect(page.get_by_label("Title")).to_be_focused()


def test_keys_are_listed(open_page, main):
    page = open_page(f"/s/{main}/")
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("From main to side and back")
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_rename_shows_everywhere_at_once(open_page, main):
    page = open_page(f"/s/{main}/")
    page.locator("#main a.more").click()
    page.get_by_label("Title").fill("A better name")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.locator(f"#title-{main}")).to_have_text("A better name")
    expect(page.locator(f"#row-{main}")).to_contain_text("A better name")


def test_copy_gives_what_the_model_wrote(open_page, main):
    page = open_page(f"/s/{main}/", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Copy the answer of turn 1").click()
    expect(page.locator(".act.done")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "It names **file** and line."
    page.get_by_role("link", name="Copy a link to turn 1").click()
    expect(page.get_by_role("link", name="Copy a link to turn 1")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{page.url}#{main}-t1-end"


def test_selection_is_asked_about_with_a_link_back(open_page, main):
    page = open_page(f"/s/{main}/")
    page.locator("#main .answer p").select_text()
    page.get_by_role("button", name="Ask about this").click()
    expect(page.locator("#text-draft")).to_be_visible()
    expect(page.locator("#side .quotes li")).to_contain_text("It names file and line.")
    page.get_by_label("Comment on quote 1").fill("which file?")
    page.locator("#text-draft").press("Enter")
    asked = page.locator("#side .user")
    expect(asked).to_contain_text("It names file and line.")
    expect(asked).to_contain_text("Comment on quote 1: which file?")
    expect(page.locator("#side .quotes")).to_have_count(0)
    asked.get_by_role("link", name="Quote 1: where it stands").click()
    expect(page.locator("#main .item.found")).to_contain_text("It names file and line.")


def test_quotes_are_collected_reordered_and_kept(open_page, main):
    page = open_page(f"/s/{main}/")
    for part in (".user p", ".answer p"):
        page.locator(f"#main {part}").first.select_text()
        page.get_by_role("button", name="Quote", exact=True).click()
    quotes = page.locator("#main .quotes li")
    expect(quotes).to_have_count(2)
    page.get_by_role("button", name="Move up quote 2").click()
    expect(quotes.first).to_contain_text("It names file and line.")
    page.reload()
    expect(quotes.first).to_contain_text("It names file and line.")
    page.get_by_role("button", name="Remove quote 2").click()
    expect(quotes).to_have_count(1)
    page.locator("#main textarea").press("Enter")
    sent = page.locator("#main .user").last
    expect(sent).to_contain_text("Quote 1:")
    expect(sent.get_by_role("link", name="Quote 1: where it stands")).to_be_visible()
    expect(quotes).to_have_count(0)


def test_link_to_an_older_message_loads_what_is_between(open_page, tmp_path):
    turn = (
        '{{"type":"turn/start","seq":{0},"time":1780000000001,"data":{{"turn":{1}}}}}\n'
        '{{"type":"user/message","seq":{2},"time":1780000000001,"surfaceOp":"append","data":{{"id":"m{1}","role":"user",'
        '"source":{{"kind":"user"}},"content":[{{"type":"text","text":"said {1}"}}]}}}}\n'
        '{{"type":"turn/end","seq":{3},"time":1780000000001,"data":{{"turn":{1},"reason":{{"kind":"completed"}}}}}}\n'
    )
    head = '{"type":"session","version":0,"id":"long","createdAt":1780000000000,"delegationDepth":0}\n'
    turns = "".join(turn.format(3 * n, n + 1, 3 * n + 1, 3 * n + 2) for n in range(200))
    (tmp_path / "long.jsonl").write_text(head + turns)
    page = open_page("/import/")
    page.get_by_label("Files").set_input_files(tmp_path / "long.jsonl")
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#main")).to_contain_text("said 200")
    page.evaluate("location.hash = '#e31'")
    found = page.locator("#main .item.found")
    expect(found).to_contain_text("said 11")
    expect(found).to_be_in_viewport()
    page.reload()
    expect(found).to_contain_text("said 11")


def test_review_counts_against_the_cap(open_page, product, main):
    side = side_of(product, main)
    page = open_page(f"/s/{main}/?side={side}")
    page.get_by_role("button", name="Review first").click()
    page.get_by_label("The note from").fill("x" * 2100)
    expect(page.locator(".count.over")).to_contain_text("2100")
    page.get_by_label("The note from").fill("Short.")
    page.locator("dialog").get_by_role("button", name="Merge back").click()
    expect(page.locator("#side .mergebar")).to_contain_text("Merged into")


def test_nothing_is_lost_when_the_server_does_not_answer(open_page, main, witness):
    witness.allowed |= {"ERR_INTERNET_DISCONNECTED", "htmx:"}
    page = open_page(f"/s/{main}/")
    page.context.set_offline(True)
    page.locator(f"#text-{main}").fill("Do not lose this")
    page.keyboard.press("Enter")
    expect(page.locator("#main .composer .refusal")).to_contain_text("did not answer")
    expect(page.locator(f"#text-{main}")).to_have_value("Do not lose this")


def test_older_turns_come_in_above_without_moving_what_is_read(open_page, talk):
    long = talk(*(f"[[say:answer {n}]] question {n}" for n in range(1, 31)))
    page = open_page(f"/s/{long}/")
    scroll = page.locator("#main .scroll")
    first = page.locator("#main .user").first
    first.scroll_into_view_if_needed()
    expect(page.locator("#main .user")).to_have_count(30)
    assert scroll.evaluate("s => s.scrollTop") > 0


def test_phone_shows_one_column_with_a_way_back(open_page, product, main):
    side = side_of(product, main)
    page = open_page(f"/s/{main}/?side={side}", viewport={"width": 390, "height": 844})
    expect(page.locator("#main")).to_be_hidden()
    page.get_by_role("link", name="Close the side panel").click()
    expect(page.locator("#main")).to_be_visible()
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page.locator("#tree")).to_be_visible()
    page.locator(f"#row-{side}").click()
    expect(page.locator("#side .answer")).to_be_visible()


def test_a_click_holds_though_its_row_is_drawn_anew(open_page, main, talk):
    other = talk("hello", title="Another")
    page = open_page(f"/s/{main}/")

    def answer_late(route):
        page.evaluate("row => document.getElementById(row).closest('li').remove()", f"row-{other}")
        route.continue_()

    page.route(f"**/s/{other}/", answer_late)
    page.locator(f"#row-{other}").click()
    expect(page.locator("#main h2")).to_have_text("Another")
