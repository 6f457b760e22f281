"""From nothing to a chat: add a provider, test it, choose its model, talk."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider

from .conftest import Opener

SERVER = Path(__file__).parents[1] / "runtime" / "tools" / "mcp_server.py"
KEY = "browser-key-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A product for which no provider is configured."""
    with Product(tmp_path_factory.mktemp("settings")) as product:
        yield product


def add(page: Page, name: str, address: str) -> None:
    page.goto("/settings/")
    page.get_by_role("link", name="Another server").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name, with which").fill(name)
    dialog.get_by_label("Shown as").fill(name.title())
    dialog.get_by_label("Address").fill(address)
    dialog.get_by_label("Key", exact=True).fill(KEY)
    dialog.get_by_role("button", name="Add").click()


def no_violations(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    assert [(v["id"], [n["html"][:160] for n in v["nodes"]]) for v in found] == []


def test_add_test_choose_chat(open_page: Opener, provider_server: ScriptedProvider, product: Product) -> None:
    provider_server.forget()
    page = open_page("/new/")
    page.get_by_role("link", name="Add a provider in Settings").click()
    add(page, "box", provider_server.base_url)
    card = page.locator("#provider-box")
    expect(card).to_contain_text("2 models")
    card.get_by_role("button", name="Test Box").click()
    expect(card.locator(".tried")).to_contain_text("scripted answered in")
    no_violations(page)
    page.goto("/new/")
    page.get_by_label("Model", exact=True).fill("box/scripted")
    page.get_by_label("First message").fill("Say hello [[say:Hello from the box.]]")
    page.keyboard.press("Enter")
    expect(page.locator("#main .transcript")).to_contain_text("Hello from the box.")
    expect(page.locator("#main .pane")).to_have_attribute("data-status", "idle")
    page.get_by_role("link", name="Model: box/scripted").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("tokens of this session anew")
    dialog.get_by_label("Model").fill("box/scripted-2")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator("#main .bar .model")).to_have_text("box/scripted-2")
    page.get_by_label("Message", exact=True).fill("[[say:And from the other.]]")
    page.keyboard.press("Enter")
    expect(page.locator("#main .transcript")).to_contain_text("And from the other.")
    assert json.loads(provider_server.bodies[-1])["model"] == "scripted-2"
    assert KEY not in page.content() and KEY not in product.log()


def test_what_went_wrong_is_said_where_the_user_looks(open_page: Opener) -> None:
    page = open_page("/settings/")
    add(page, "Not A Name", "http://127.0.0.1:9/v1")
    assert page.get_by_role("dialog").get_by_label("Name, with which").evaluate("e => !e.checkValidity()")
    add(page, "gone", "http://127.0.0.1:9/v1")
    card = page.locator("#provider-gone")
    expect(card).to_contain_text("cannot reach Gone", ignore_case=True)
    card.get_by_label("Model of Gone").fill("m")
    card.get_by_role("button", name="Test Gone").click()
    expect(card.locator(".tried")).to_contain_text("m gave no answer: cannot reach Gone")
    no_violations(page)
    card.get_by_role("link", name="Edit Gone").click()
    page.get_by_text("Remove …").click()
    page.get_by_role("button", name="Remove Gone").click()
    expect(card).to_have_count(0)


def test_an_mcp_server_is_added_tested_trusted_and_removed(open_page: Opener, product: Product) -> None:
    page = open_page("/settings/")
    page.get_by_role("link", name="Add a server").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("real")
    dialog.get_by_label("Command").fill(f"{sys.executable} {SERVER} {product.data_dir}")
    dialog.get_by_role("button", name="Save").click()

    page.get_by_role("button", name="Test real").click()
    page.locator(".tried summary").click()
    expect(page.locator(".tools")).to_contain_text("real__echo asks")
    page.get_by_role("button", name="Trust real").click()
    page.locator(".tried summary").click()
    expect(page.locator(".tools")).to_contain_text("read-only")
    no_violations(page)
    page.get_by_role("link", name="Edit real").click()
    page.get_by_text("Remove …").click()
    page.get_by_role("button", name="Remove real").click()
    expect(page.locator("body")).to_contain_text("real is removed.")
