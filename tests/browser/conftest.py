"""A real server, a real Chromium, and a page on which nothing may go wrong unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response, sync_playwright

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

DESKTOP = {"width": 1440, "height": 900}
Opener = Callable[..., Page]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, provider_server: ScriptedProvider) -> Iterator[Product]:
    with Product(tmp_path_factory.mktemp("browser"), provider_server.base_url) as product:
        yield product


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


class Witness:
    """What a page must not do: log an error, throw, or ask anything of another host."""

    # htmx logs these, too, when the page is left while it asks; what went wrong otherwise is a failed request
    LEFT = frozenset({"htmx:afterRequest", "htmx:sendError", "htmx:sendAbort"})

    def __init__(self, product: Product) -> None:
        self.host = urlsplit(product.url).netloc
        self.seen: list[str] = []
        self.allowed: set[str] = set(self.LEFT)

    def watch(self, page: Page) -> None:
        page.on("console", lambda m: self.seen.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("response", self._answered)
        page.on("requestfailed", self._failed)
        page.on("request", lambda request: self._asked(request.url))

    def _answered(self, response: Response) -> None:
        if response.status == 404 and not response.request.is_navigation_request():
            self.seen.append(f"not found: {response.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":
            self.seen.append(f"Failed to load resource {request.url}: {request.failure}")

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self.host:
            self.seen.append(f"request: {url}")

    @property
    def unexpected(self) -> list[str]:
        return [seen for seen in self.seen if not any(allowed in seen for allowed in self.allowed)]


@pytest.fixture
def witness(product: Product) -> Iterator[Witness]:
    witness = Witness(product)
    yield witness
    assert witness.unexpected == []


@pytest.fixture
def open_page(chromium: Browser, product: Product, witness: Witness) -> Iterator[Opener]:
    """Opens a path of the product in a browser context of its own."""
    contexts: list[BrowserContext] = []

    def open_page(path: str = "/", **options: object) -> Page:
        context = chromium.new_context(base_url=product.url, **{"viewport": DESKTOP, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        witness.watch(page)
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def talk(product: Product) -> Callable[..., str]:
    """Makes a session in which the given messages were said and answered; returns its id."""

    def talk(*texts: str, title: str = "") -> str:
        _, session = product.call("POST", "/api/sessions", {"title": title} if title else {})
        for text in texts:
            product.call("POST", f"/api/sessions/{session['id']}/messages", {"text": text})
            product.wait_idle(session["id"])
        return str(session["id"])

    return talk
