"""Work in a directory: tool cards, and approvals by keyboard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.faults.product import Product

from .conftest import Opener, Witness


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    return tmp_path


def begin(page: Page, folder: Path, text: str) -> None:
    page.get_by_label("Directory to work in").fill(str(folder))
    page.get_by_label("First message").fill(text)
    page.get_by_label("First message").press("Enter")


def test_a_change_is_asked_for_shown_and_made(open_page: Opener, folder: Path) -> None:
    page = open_page("/new/")
    edit = json.dumps({"path": "notes.txt", "old": "two", "new": "2"})
    begin(page, folder, f"[[think:Which line?]][[say:Done.]] change it [[call:edit_file {edit}]]")
    allow = page.get_by_role("button", name="Allow once")
    expect(allow).to_be_visible()
    assert (folder / "notes.txt").read_text() == "one\ntwo\n"
    allow.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main .answer").last).to_contain_text("Done.")
    card = page.locator("#main .tool")
    expect(card).to_contain_text("edit_file")
    expect(card).to_contain_text("notes.txt")
    card.locator("summary").first.click()
    expect(card).to_contain_text("-two")
    expect(card).to_contain_text("+2")
    expect(page.locator("#main details.reasoning").first).not_to_have_attribute("open", "")
    assert (folder / "notes.txt").read_text() == "one\n2\n"


def test_a_directory_that_is_none_is_refused_where_it_was_typed(
    open_page: Opener, folder: Path, product: Product, witness: Witness
) -> None:
    witness.allowed |= {"422"}
    page = open_page("/new/")
    begin(page, folder / "missing", "hello")
    expect(page.locator("#composer-new .refusal")).to_contain_text("one that exists")
    begin(page, product.data_dir, "hello")
    expect(page.locator("#composer-new .refusal")).to_contain_text("keeps its own data there")
    expect(page.get_by_label("First message")).to_have_value("hello")
