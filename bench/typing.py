"""What a key costs in the browser: from the key to the painted letter, while main and side stream.

    python -m bench.typing [--messages 3000] [--keys 200] [--everything] [--json FILE]

Opens a session of that many messages with a side beside it in Chromium, lets both answer, types into main's
composer meanwhile, and prints the median and the 95th percentile in ms; then the same with nothing streaming.
`--everything` loads all older turns into the page first. Says also whether focus, text or caret were lost.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from bench.record import EVENTS_A_MESSAGE
from bench.server import Client, Server, provider, server

PAUSE_MS: Final = 60  # between keys: a quick typist
STREAMED_TOKENS: Final = 3_000
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# A task that is posted in the frame's callback runs when that frame is painted.
STAMPS: Final = """window.taken = []; document.addEventListener('keydown', event => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => taken.push(performance.now() - event.timeStamp);
    requestAnimationFrame(() => port2.postMessage(0));
}, true);"""


def opened(at: Server, page: Page, messages: int, everything: bool) -> tuple[str, str]:
    """The session and its side, both on the page and at rest."""
    client = Client(at)
    session = client.imported("typing", int(messages * EVENTS_A_MESSAGE))
    side = client.json("POST", f"/api/sessions/{session}/fork", {"side": True})["id"]
    for one in (session, side):
        client.json("PATCH", f"/api/sessions/{one}", {"model": f"custom/fake-200-{STREAMED_TOKENS}-20"})
    page.goto(f"http://127.0.0.1:{at.port}/s/{session}/?side={side}")
    while everything and page.locator("#main li.older").count():
        page.locator("#main li.older").first.scroll_into_view_if_needed()
        page.wait_for_timeout(50)
    return session, side


def typed(page: Page, session: str, keys: int) -> dict[str, Any]:
    """The figures of `keys` keys in main's composer."""
    box = page.locator(f"#text-{session}")
    box.fill("")
    box.focus()
    page.evaluate("taken.length = 0")
    text = ("the quick brown fox " * keys)[:keys]
    page.keyboard.type(text, delay=PAUSE_MS)
    page.wait_for_function("n => taken.length >= n", arg=keys)
    taken = page.evaluate("taken")
    kept = box.input_value() == text and page.evaluate("document.activeElement.selectionStart") == keys
    return {"median": statistics.median(taken), "p95": statistics.quantiles(taken, n=20)[-1], "kept": kept}


def run(at: Server, messages: int, keys: int, everything: bool) -> dict[str, dict[str, Any]]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(STAMPS)
        session, side = opened(at, page, messages, everything)
        quiet = typed(page, session, keys)
        for one in (session, side):
            Client(at).json("POST", f"/api/sessions/{one}/messages", {"text": "Go on."})
        page.locator("#main .pane[data-status=running]").wait_for()
        page.locator("#side .pane[data-status=running]").wait_for()
        streaming = typed(page, session, keys)
        still = page.locator(".pane[data-status=running]").count() == 2
        browser.close()
    return {"nothing streams": quiet, "both stream": {**streaming, "still": still}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=3000)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--everything", action="store_true")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    with provider("") as url, server(url, SIDECHAT_DEFAULT_MODEL="custom/bench") as at:
        figures = run(at, options.messages, options.keys, options.everything)
    print(json.dumps(figures))
    for name, figure in figures.items():
        print(f"{name:<18} median {figure['median']:6.1f} ms   p95 {figure['p95']:6.1f} ms   kept {figure['kept']}")
    if options.json:
        with open(options.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
