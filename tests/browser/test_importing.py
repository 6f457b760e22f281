"""Importing by hand: chosen files, a dropped folder, and a refusal where the user is looking."""

import pytest
from playwright.sync_api import expect


@pytest.fixture
def folder(tmp_path):
    """A parent with a child that comes first by name, and a file that is no log."""
    head = '{"type":"session","version":0,"id":"%s","createdAt":1780000000000%s,"delegationDepth":%d}\n'
    said = (
        '{"type":"user/message","seq":0,"time":1780000000001,"surfaceOp":"append","data":'
        '{"id":"m","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"%s"}]}}\n'
    )
    below = tmp_path / "sessions" / "below"
    below.mkdir(parents=True)
    child = head % ("a-child", ',"parentSession":"z-parent","seedLength":0', 1) + said % "asked below"
    (below / "a.jsonl").write_text(child)
    (below.parent / "z.jsonl").write_text(head % ("z-parent", "", 0) + said % "asked above")
    (below.parent / "notes.txt").write_text("no log")
    return below.parent


def test_chosen_files(open_page, folder):
    page = open_page("/new/")
    page.get_by_role("link", name="Import").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Files").set_input_files([folder / "below/a.jsonl", folder / "z.jsonl"])
    dialog.get_by_role("button", name="Import").click()
    expect(page.get_by_text("2 sessions imported.")).to_be_visible()
    expect(page.locator("#main")).to_contain_text("asked below")
    expect(page.locator("#main .crumb").first).to_be_visible()


def test_folder(open_page, folder):
    page = open_page("/import/")
    page.get_by_label("Or a whole folder").set_input_files(folder)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("2 sessions imported.")).to_be_visible()


def test_refusal_is_said_in_the_dialog(open_page, tmp_path, witness):
    witness.allowed.add("422")
    bad = tmp_path / "bad.jsonl"
    bad.write_text("not a log\n")
    page = open_page("/import/")
    page.get_by_label("Files").set_input_files(bad)
    page.get_by_role("button", name="Import").click()
    expect(page.locator(".importing .refusal")).to_contain_text("bad.jsonl line 1")
    expect(page.get_by_role("button", name="Import")).to_be_enabled()


def test_drop_on_the_list(open_page, folder):
    page = open_page("/new/")
    text = (folder / "z.jsonl").read_text()
    transfer = page.evaluate_handle(
        "text => { const t = new DataTransfer(); t.items.add(new File([text], 'dropped.jsonl')); return t; }", text
    )
    page.dispatch_event("#tree", "dragover", {"dataTransfer": transfer})
    page.dispatch_event("#tree", "drop", {"dataTransfer": transfer})
    expect(page.locator("#main")).to_contain_text("asked above")
