"""Pages of other origins in a real Chromium, and one whose host name was bound anew to us: they read nothing,
send nothing and open no socket, in local mode and in team mode. The same attempts from our own page succeed."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import FLAGS
from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider

PLANTED = "the planted secret of this session"
RULES = "MAP evil.example 127.0.0.1, MAP rebind.example 127.0.0.1"
CHROMIUM = [
    *FLAGS,
    f"--host-resolver-rules={RULES}",
    # Chromium's own guard of local servers, which not every browser has
    "--disable-features=LocalNetworkAccessChecks,PrivateNetworkAccessSendPreflights,BlockInsecurePrivateNetworkRequests",
]

ATTEMPTS = """
async ([product, session]) => {
  const page = `${product}/s/${session}/`;
  const found = {};
  const reads = async (name, url, options) => {
    try {
      const text = await (await fetch(url, {credentials: "include", ...options})).text();
      found[name] = text.includes("planted secret");
    } catch (error) { found[name] = false; }
  };
  await reads("page", page);
  await reads("state", `${product}/s/${session}/state/main`, {headers: {"HX-Request": "true"}}).catch(() => {});
  await reads("list", `${product}/sessions/`);
  await reads("api", `${product}/api/sessions/${session}/messages`);
  const form = new URLSearchParams({text: "sent by another page", key: "k"});
  const json = new Blob(['{"text": "sent by another page"}'], {type: "text/plain"});
  for (const [name, url, body] of [
    ["form", `${page}send`, form],
    ["delete", `${page}delete`, new URLSearchParams({sides: "delete"})],
    ["new", `${product}/new/`, form],
    ["json", `${product}/api/sessions/${session}/messages`, json],
  ]) {
    try { await fetch(url, {method: "POST", mode: "no-cors", credentials: "include", body}); } catch (error) {}
  }
  const hears = (path) => new Promise((done) => {
    const socket = new WebSocket(product.replace("http", "ws") + path);
    socket.onmessage = (event) => { socket.close(); done(event.data.includes("hello")); };
    socket.onerror = () => done(false);
    setTimeout(() => done(false), 8000);
  });
  found.socket = await hears(`/ws/sessions/${session}/?as=json`);
  found.tree = await hears("/ws/tree/?as=json");
  const frame = document.createElement("iframe");
  frame.src = page;
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
  try { found.frame = frame.contentDocument.body.innerText.includes("planted secret"); }
  catch (error) { found.frame = false; }
  return found;
}
"""


class Elsewhere:
    """A web server of somebody else: an empty page under every path."""

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>Elsewhere</title><body></body>")

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.server.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["local", "team"])
def product(request, tmp_path_factory, provider_server: ScriptedProvider) -> Iterator[Product]:
    mode = {"SIDECHAT_LOCAL_MODE": "on" if request.param == "local" else "off"}
    with Product(tmp_path_factory.mktemp(request.param), provider_server.base_url, **mode) as product:
        product.team = request.param == "team"
        yield product


@pytest.fixture
def victim(chromium: Browser, product: Product) -> Iterator[tuple[Page, str]]:
    """A browser in which somebody uses the product, and the session that they look at."""
    context = chromium.new_context()
    page = context.new_page()
    if product.team:
        page.goto(f"{product.url}/accounts/login/")
        page.fill("[name=username]", "ann")
        page.fill("[name=password]", "a long password")
        page.click("button[type=submit]")
    page.goto(f"{product.url}/new/")
    page.fill("textarea[name=text]", PLANTED)
    page.press("textarea[name=text]", "Enter")
    page.wait_for_url("**/s/*/")
    page.get_by_text(PLANTED).first.wait_for()
    yield page, page.url.rstrip("/").rpartition("/")[2]
    context.close()


@pytest.fixture(scope="module", autouse=True)
def ann(product: Product) -> None:
    product.manage("user", "add", "ann", "--password-stdin", typed="a long password\n")


def said(page: Page) -> str:
    page.reload()
    page.get_by_text(PLANTED).first.wait_for()
    return page.content()


def test_our_own_page_can(victim, product):
    """What the other tests try does work where it may: they would notice."""
    page, session = victim
    found = page.evaluate(ATTEMPTS, [product.url, session])
    assert {name for name, got in found.items() if got} == {"page", "state", "list", "socket", "tree"}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost"])
def test_page_of_another_origin_cannot(victim, product, elsewhere, host):
    page, session = victim
    other = page.context.new_page()
    other.goto(f"http://{host}:{elsewhere.port}/")
    found = other.evaluate(ATTEMPTS, [product.url, session])
    assert not any(found.values()), found
    assert "sent by another page" not in said(page)


def test_page_under_a_name_that_was_bound_anew_cannot(victim, product):
    page, session = victim
    other = page.context.new_page()
    rebound = f"http://rebind.example:{product.port}"
    response = other.goto(f"{rebound}/s/{session}/")
    assert response is not None and response.status == 400
    found = other.evaluate(ATTEMPTS, [rebound, session])
    assert not any(found.values()), found
    assert "sent by another page" not in said(page)
    assert not [cookie for cookie in page.context.cookies() if "rebind" in cookie["domain"]]


def test_link_on_another_page_leads_to_us(victim, product, elsewhere):
    page, session = victim
    other = page.context.new_page()
    other.goto(f"http://evil.example:{elsewhere.port}/")
    with other.expect_navigation():
        other.evaluate(f"location.href = '{product.url}/s/{session}/'")
    if product.team:
        assert other.title().startswith(("Sign in", PLANTED[:10], "New session")) or PLANTED in other.content()
    else:
        assert PLANTED in other.content()
