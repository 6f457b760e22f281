"""A full run with marks in everything that anybody says or keeps secret: logs, figures and the database file."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider

KEY = "sk-MARKkey-0123456789abcdef"
STORED = "sk-MARKstored-0123456789abcdef"
PASSWORD = "MARKpassword long enough"
METRICS = "MARKmetrics-0123456789"


class Browser:
    """Forms with cookies and CSRF tokens, as a browser without scripts sends them."""

    def __init__(self, url: str) -> None:
        self.url, self.cookies = url, CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def get(self, path: str) -> str:
        with self._opener.open(self.url + path, timeout=20) as answer:
            return str(answer.read().decode())

    def post(self, path: str, form_on: str = "", **fields: str) -> str:
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(form_on or path))[0]
        data = urllib.parse.urlencode({"csrfmiddlewaretoken": token, **fields}).encode()
        request = urllib.request.Request(self.url + path, data, headers={"Referer": self.url})
        try:
            with self._opener.open(request, timeout=20) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as e:
            return e.read().decode()


@pytest.fixture(scope="module")
def run(tmp_path_factory, provider_server: ScriptedProvider) -> Iterator[tuple[Product, list[str]]]:
    """The product after everything was done once, and every secret that was seen meanwhile."""
    folder = tmp_path_factory.mktemp("marks")
    environment = {
        "SIDECHAT_OPENAI_API_KEY": KEY,
        "SIDECHAT_LOG_LEVEL": "info",
        "SIDECHAT_LOG_FORMAT": "json",
        "SIDECHAT_METRICS_TOKEN": METRICS,
        "SIDECHAT_ENABLE_SHELL": "on",
    }
    with Product(folder, provider_server.base_url, **environment) as product:
        product.manage("user", "add", "ann", "--password-stdin", typed=PASSWORD + "\n")
        as_program(product, tmp_path_factory.mktemp("work"))
        secrets = [KEY, STORED, PASSWORD, METRICS, product.token, *as_people(product)]
        yield product, secrets


def as_program(product: Product, work: Path) -> None:
    """Sessions, tools, failures, a side, a note, a fork, an import, wrong calls."""
    session = {"title": "MARKtitle", "system": "MARKsystem", "cwd": str(work)}
    main = product.call("POST", "/api/sessions", session)[1]["id"]
    for text in (
        "MARKtext [[say:MARKanswer]]",
        '[[call:read_file {"path": "MARKpath"}]]',
        '[[call:write_file {"path": "MARKfile", "content": "MARKcontent"}]]',
        "MARKflaky [[flaky:1]]",
        "MARKbroken [[malformed]]",
        "MARKerror [[error]]",
    ):
        product.call("POST", f"/api/sessions/{main}/messages", {"text": text})
    wait_or_deny(product, main)
    side = product.call("POST", f"/api/sessions/{main}/fork", {"text": "MARKaside", "title": "MARKside"})[1]["id"]
    product.wait_idle(side)
    product.call("POST", f"/api/sessions/{side}/merge", {"text": "MARKnote"})
    product.call("POST", f"/api/sessions/{main}/messages", {"text": "MARK", "mode": "MARKmode"})
    product.call("GET", "/api/sessions?q=MARKquery&cursor=MARKcursor")
    product.call("GET", f"/api/sessions/{main}?token={product.token}")
    product.call("POST", "/api/import", {"MARKimport": 1})
    product.wait_idle(main, side)


def wait_or_deny(product: Product, session: str) -> None:
    """Wait for the queue to be worked off, deciding against whatever asks."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for asked in product.call("GET", f"/api/sessions/{session}/approvals")[1]:
            product.call("POST", f"/api/approvals/{asked['id']}", {"decision": "deny"})
        idle = product.call("GET", f"/api/sessions/{session}")[1]["status"] == "idle"
        if idle and not product.call("GET", f"/api/sessions/{session}/queue")[1]["items"]:
            return
        time.sleep(0.1)
    raise AssertionError("still at work")


def as_people(product: Product) -> list[str]:
    """Signing in, a token, an invitation, a stored provider; returns what was shown once."""
    browser = Browser(product.url)
    browser.post("/accounts/login/", username="ann", password="MARKwrong password")
    browser.post("/accounts/login/", username="ann", password=PASSWORD)
    [token] = re.findall(
        r"sc_[\w-]{40,}", browser.post("/account/tokens", "/account/", name="MARKname", scope="read", days="30")
    )
    [invitation] = re.findall(r"/accounts/join/([\w-]+)/", browser.post("/account/invitations", "/account/"))
    Browser(product.url).get(f"/accounts/join/{invitation}/")
    browser.post(
        "/settings/providers/new",
        name="mine",
        protocol="openai",
        base_url="http://127.0.0.1:9/v1",
        key=STORED,
        enabled="on",
        default_model="m",
    )
    assert "mine" in browser.get("/settings/")
    cookies = [str(cookie.value) for cookie in browser.cookies]
    return [token, invitation, *cookies]


def test_log_has_lines_and_nothing_that_was_said_or_is_secret(run):
    product, secrets = run
    log = product.log()
    for line in ("turn started", "turn ended", "request answered", "request failed", "tool ran"):
        assert f'"message": "{line}"' in log
    assert re.search(r'"session": "[a-z0-9]{26}", "seq": \d+', log)
    assert not [line for line in log.splitlines() if "MARK" in line]
    assert not [secret for secret in secrets if secret in log]


def test_figures_have_neither(run):
    product, secrets = run
    request = urllib.request.Request(product.url + "/metrics", headers={"Authorization": f"Bearer {METRICS}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    assert "sidechat_turns_total" in text
    assert "MARK" not in text
    assert not [secret for secret in secrets if secret in text]


def test_database_file_has_no_secret(run):
    """What was said is there, by its nature."""
    product, secrets = run
    stored = b"".join(Path(file).read_bytes() for file in product.data_dir.glob("sidechat.sqlite3*"))
    assert b"MARKtext" in stored
    assert [secret for secret in secrets if secret.encode() in stored] == []


def test_answers_have_no_key(run):
    product, _ = run
    browser = Browser(product.url)
    browser.post("/accounts/login/", username="ann", password=PASSWORD)
    for path in ("/settings/", "/settings/providers/mine", "/account/", "/admin/"):
        page = browser.get(path)
        assert KEY not in page
        assert STORED not in page
