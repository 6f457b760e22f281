"""Takes the screenshots of the README: `python -m tests.browser.screenshots`.

The story is played on a real server; the model's lines are written here.
"""

from __future__ import annotations

import asyncio
import tempfile
from asyncio import StreamWriter
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.faults.product import ROOT, Product, wait_for
from tests.scripted_provider import ScriptedProvider, Wire

from .conftest import FLAGS

OUT: Final = ROOT / "docs" / "screenshots"
DESKTOP: Final = {"width": 1440, "height": 900}
PHONE: Final = {"width": 390, "height": 844}

REWRITE = """The reader now yields events as lines arrive. The only state it keeps is what a refusal needs: the last \
committed sequence, and whether a `turn/end` came after the first problem.

```python
for line in lines(stream):          # bytes, split on LF only
    match decode(line, expect=seq):
        case Event(e): yield e
        case Problem(p): torn = torn or p
```

Memory stays flat: a log of 100,000 events needs what its longest line needs."""
REFUSALS = """A refusal names **file**, **line** and **reason**, and the kinds are told apart:

| kind | when |
|---|---|
| unsupported | a newer version, or a required type that is unknown |
| corrupt | readable lines that break a rule |
| unreadable | bytes that are no log at all |"""
FRAMES = """**Frame 1 holds exactly the header line**; every later frame is one append batch, so a torn file loses at \
most the last batch."""
HANDBACK = """**Frame 1 holds exactly the header line**; every later frame is one append batch, so a torn file loses \
at most the last batch.

- Evidence: turns 1 and 2
- Caveat: other writers may omit checksums; accept both.
- Next: cut at the torn frame’s first byte when repairing."""
CUT = """Because a prefix that ends inside a turn can hold a tool call without its result, and providers refuse such \
a history. Cutting at `turn/end` keeps every pair whole.

It also means that the side never claims to know the answer that main is still writing."""
REPAIR = """Starting from the handback: the repair offset is the torn frame’s first byte, so I record where each \
frame starts while decoding.

When the last frame does not end, the file is cut there, and what was recovered of it is written again as a whole \
frame, followed by the closers of the open turn. A file whose frames all end is left as it is.

The tests tear one file at every byte and compare what a reader gets before and after the repair: the same events, \
in the same order, and a log that can be appended to. Three of them hold a checksum that is wrong on purpose; those \
are refused with the frame’s offset, as they were before."""

LINES: Final[dict[str, tuple[str, int]]] = {
    "What must a refusal say?": (REFUSALS, 0),
    "Rewrite `read_log` so that a 100,000-event log never sits in memory whole. Keep refusals exact.": (REWRITE, 0),
    "How are zstd frames laid out?": (FRAMES, 0),
    "Why does the fork cut at the last turn/end and not at the last message?": (CUT, 0),
    "Use that. Then add the torn-frame repair.": (REPAIR, 60),
    "Which test is flaky?": ("The one that waits for a socket to close.", 0),
}


class Storyteller(ScriptedProvider):
    """Answers with the lines above, after a moment."""

    async def _wait(self, writer: StreamWriter, script: dict[str, str]) -> None:
        await asyncio.sleep(0.9)

    def _text(self, wire: Wire, script: dict[str, str]) -> str:
        if wire.prompt not in LINES:
            return super()._text(wire, script)
        text, every = LINES[wire.prompt]
        script["every"] = str(every)
        return text


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with Storyteller() as provider, tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        provider.handback = HANDBACK
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        with Product(Path(data), provider.base_url) as product:
            first = _page(browser, product, DESKTOP, "light")
            first.goto("/")
            _take(first, "first-run")
            story = tell(product)
            both = f"/s/{story['main']}/?side={story['side']}"
            for name, path, size, scheme in (
                ("main-and-side", both, DESKTOP, "light"),
                ("main-and-side-dark", both, DESKTOP, "dark"),
                ("phone-side", both, PHONE, "light"),
                ("phone-main", f"/s/{story['main']}/", PHONE, "dark"),
            ):
                page = _page(browser, product, size, scheme)
                page.goto(path)
                page.locator(".answer, .live").first.wait_for(state="attached")
                page.evaluate("document.querySelectorAll('.scroll').forEach(s => s.scrollTop = s.scrollHeight)")
                page.wait_for_timeout(600)
                _take(page, name)
        browser.close()


def tell(product: Product) -> dict[str, str]:
    """The story up to the moment at which main is running and a side has answered."""
    _say(product, _new(product, "Flaky socket test"), "Which test is flaky?")
    session = _new(product, "Port the log reader to streaming")
    for text in list(LINES)[:2]:
        _say(product, session, text)
    frames = _ask(product, session, "zstd frame layout", "How are zstd frames laid out?")
    product.call("POST", f"/api/sessions/{frames}/merge", {})
    wait_for(lambda: _merged(product, frames), 30, lambda: "the note did not arrive")
    product.call("POST", f"/api/sessions/{session}/messages", {"text": "Use that. Then add the torn-frame repair."})
    wait_for(lambda: _status(product, session) == "running", 30, lambda: "main does not run")
    question = "Why does the fork cut at the last turn/end and not at the last message?"
    return {"main": session, "side": _ask(product, session, "why cut at turn/end?", question)}


def _new(product: Product, title: str) -> str:
    _, session = product.call("POST", "/api/sessions", {"title": title})
    return str(session["id"])


def _say(product: Product, session: str, text: str) -> None:
    product.call("POST", f"/api/sessions/{session}/messages", {"text": text})
    product.wait_idle(session)


def _ask(product: Product, session: str, title: str, text: str) -> str:
    _, side = product.call("POST", f"/api/sessions/{session}/fork", {"side": True, "title": title, "text": text})
    product.wait_idle(side["id"])
    return str(side["id"])


def _status(product: Product, session: str) -> str:
    return str(product.call("GET", f"/api/sessions/{session}")[1]["status"])


def _merged(product: Product, side: str) -> bool:
    _, merges = product.call("GET", f"/api/sessions/{side}/merges")
    return [merge["state"] for merge in merges] == ["delivered"]


def _page(browser: Browser, product: Product, size: dict[str, int], scheme: str) -> Page:
    context = browser.new_context(base_url=product.url, viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    return context.new_page()


def _take(page: Page, name: str) -> None:
    page.screenshot(path=OUT / f"{name}.png")


if __name__ == "__main__":
    main()
