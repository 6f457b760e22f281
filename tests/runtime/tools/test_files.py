"""Reading, listing, writing and editing, as a model calls them."""

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidechat_web.runtime.tools import diffs, files
from sidechat_web.runtime.tools.registry import OUTPUT_CAP_CHARS, ToolError
from tests.runtime.tools.conftest import fingerprint


async def test_a_file_is_read_with_line_numbers(root):
    result = await files.read_file(root, {"path": "readme.md"})
    assert result.text == "1\tone\n2\ttwo\n3\tthree"
    assert result.meta == {"path": "readme.md", "lines": 3, "shown": [1, 3]}


async def test_a_window_says_what_is_left(root):
    result = await files.read_file(root, {"path": "readme.md", "offset": 2, "limit": 1})
    assert result.text == "2\ttwo\n[lines 2–2 of 3; go on with offset 3]"
    (root / "long.txt").write_text("".join(f"{n}\n" for n in range(1, 5001)))
    result = await files.read_file(root, {"path": "long.txt", "limit": 100_000})
    assert result.text.endswith("2000\t2000\n[lines 1–2000 of 5000; go on with offset 2001]")


@pytest.mark.parametrize("value", [0, -1, "x", 1.5, True, [], {}])
async def test_a_bad_window_is_refused(root, value):
    with pytest.raises(ToolError, match="whole number"):
        await files.read_file(root, {"path": "readme.md", "offset": value})


async def test_lenient_where_the_meaning_is_clear(root):
    result = await files.read_file(root, {"path": "readme.md", "offset": "3", "limit": 1.0, "read_only": True})
    assert result.text == "3\tthree"
    assert (await files.read_file(root, {"path": "readme.md", "offset": None})).meta["lines"] == 3


async def test_empty_binary_and_past_the_end(root):
    (root / "empty").touch()
    (root / "image").write_bytes(b"\x89PNG\0\0")
    assert (await files.read_file(root, {"path": "empty"})).text == "empty is empty."
    with pytest.raises(ToolError, match="binary file of 6 bytes"):
        await files.read_file(root, {"path": "image"})
    with pytest.raises(ToolError, match="only 3 lines"):
        await files.read_file(root, {"path": "readme.md", "offset": 4})
    with pytest.raises(ToolError, match="is missing"):
        await files.read_file(root, {})


async def test_huge_lines_and_files_stay_within_bounds(root):
    (root / "one-line").write_text("x" * 3_000_000)
    result = await files.read_file(root, {"path": "one-line"})
    assert len(result.text) < 2100 and result.text.endswith("[… cut: the line has 3,000,000 bytes]")
    (root / "wide").write_text(("é" * 1999 + "\n") * 2000)
    assert len((await files.read_file(root, {"path": "wide"})).text) < OUTPUT_CAP_CHARS
    with (root / "sparse").open("wb") as out:
        out.write(b"first\n" + b"more\n" * 2000)
        out.truncate(10 << 30)
    result = await files.read_file(root, {"path": "sparse", "limit": 1})
    assert result.text.startswith("1\tfirst\n[lines 1–1 of more (10,737,418,240 bytes in all)")
    with pytest.raises(ToolError, match="further than is read"):
        await files.read_file(root, {"path": "sparse", "offset": 3000})


async def test_text_that_is_not_utf8_is_still_read(root):
    (root / "latin").write_bytes(b"caf\xe9\r\nbar\r\n")
    assert (await files.read_file(root, {"path": "latin"})).text == "1\tcaf\ufffd\n2\tbar"


async def test_listing(root):
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "src" / "fifo")
    (root / "two\nlines").touch()
    (root / os.fsdecode(b"bad\xff")).touch()
    assert (await files.list_files(root, {})).text.split("\n") == [
        "src/", "bad\\udcff  (0 bytes)", "link -> /etc/passwd", "readme.md  (14 bytes)", "two\\nlines  (0 bytes)",
    ]  # fmt: skip
    assert "deep/" in (await files.list_files(root, {"path": "src"})).text
    with pytest.raises(ToolError, match="not a directory"):
        await files.list_files(root, {"path": "readme.md"})
    with pytest.raises(ToolError, match="not a directory"):
        await files.list_files(root, {"path": "src/fifo"})


async def test_a_long_listing_is_cut(root):
    for n in range(1100):
        (root / "src" / f"{n:04}").touch()
    result = await files.list_files(root, {"path": "src"})
    assert result.text.endswith("[… 102 more entries; use glob to narrow it down]")


async def test_a_file_is_made_with_its_directories(root):
    result = await files.write_file(root, {"path": "a/b/new.txt", "content": "x\ny"})
    assert (root / "a/b/new.txt").read_text() == "x\ny"
    assert result.text == "Created a/b/new.txt: 2 lines, 3 bytes."
    assert (result.meta["added"], result.meta["removed"]) == (2, 0)
    assert result.meta["diff"] == (
        "--- /dev/null\n+++ b/a/b/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
    )


async def test_a_file_is_replaced_and_keeps_its_mode(root):
    (root / "readme.md").chmod(0o640)
    result = await files.write_file(root, {"path": "readme.md", "content": "one\n2\nthree\n"})
    assert stat.S_IMODE((root / "readme.md").stat().st_mode) == 0o640
    assert (result.meta["added"], result.meta["removed"]) == (1, 1)
    assert "-two\n+2\n" in result.meta["diff"]


async def test_a_link_is_written_through(root):
    (root / "link").symlink_to("src/app.py")
    await files.write_file(root, {"path": "link", "content": "new"})
    assert (root / "link").is_symlink() and (root / "src/app.py").read_text() == "new"


@pytest.mark.parametrize(
    ("content", "reason"),
    [("\ud800", "surrogate"), ("x" * (6 << 20), "at most"), (7, "must be a string"), (None, "string")],
)
async def test_content_that_cannot_be_written(root, content, reason):
    before = fingerprint(root)
    with pytest.raises(ToolError, match=reason):
        await files.write_file(root, {"path": "x", "content": content})
    assert fingerprint(root) == before


async def test_an_edit_replaces_the_one_place(root):
    result = await files.edit_file(root, {"path": "src/app.py", "old": "def main():", "new": "def start():"})
    assert "def start():\n" in (root / "src/app.py").read_text()
    assert result.text == "Edited src/app.py: +1 −1 lines."
    assert "-def main():\n+def start():\n" in result.meta["diff"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("nowhere", "x", "was not found"),
        ("one\n two", "x", "was not found"),
        ("two ", "x", "Line 2 starts alike"),
        ("e", "x", r"stands 3 times .*\(lines 1, 3, 3\)"),
        ("", "x", "'old' is empty"),
        ("one", "one", "the same"),
        ("one", "\ud800", "surrogate"),
    ],
)
async def test_edits_that_are_refused_change_nothing(root, old, new, reason):
    before = fingerprint(root)
    with pytest.raises(ToolError, match=reason):
        await files.edit_file(root, {"path": "readme.md", "old": old, "new": new})
    assert fingerprint(root) == before


async def test_all_places(root):
    result = await files.edit_file(root, {"path": "readme.md", "old": "e", "new": "E", "all": True})
    assert (root / "readme.md").read_text() == "onE\ntwo\nthrEE\n"
    assert "in 3 places" in result.text
    with pytest.raises(ToolError, match="true or false"):
        await files.edit_file(root, {"path": "readme.md", "old": "E", "new": "e", "all": "yes"})


async def test_windows_line_ends_are_kept(root):
    (root / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await files.edit_file(root, {"path": "dos.txt", "old": "one\ntwo", "new": "1\n2\n2b"})
    assert (root / "dos.txt").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"


@pytest.mark.parametrize("content", [b"a\0b", b"caf\xe9"])
async def test_what_is_not_text_is_not_edited(root, content):
    (root / "data").write_bytes(content)
    with pytest.raises(ToolError, match=r"UTF-8|binary"):
        await files.edit_file(root, {"path": "data", "old": "a", "new": "b"})


async def test_edits_of_one_file_at_the_same_time_all_hold(root):
    (root / "n.txt").write_text("".join(f"<{n}>\n" for n in range(50)))
    edits = (files.edit_file(root, {"path": "n.txt", "old": f"<{n}>", "new": f"[{n}]"}) for n in range(50))
    await asyncio.gather(*edits)
    assert (root / "n.txt").read_text() == "".join(f"[{n}]\n" for n in range(50))


async def test_nothing_is_written_after_a_call_was_cancelled(root):
    for n in range(12):
        task = asyncio.create_task(files.write_file(root, {"path": "f.txt", "content": f"{n}\n" * 50_000}))
        await asyncio.sleep(0.0005 * n)
        task.cancel()
        await asyncio.wait([task])
        before = fingerprint(root)
        await asyncio.sleep(0.01)
        assert fingerprint(root) == before and not list(root.glob(".sidechat-*"))


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n", "e\u2028f\n"]), max_size=30).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(before=LINES, after=LINES, end=st.sampled_from(["", "tail"]))
def test_a_diff_is_what_patch_needs(tmp_path, before, after, end):
    diff = diffs.unified("f", before, after + end)
    (tmp_path / "f").write_text(before, newline="")
    if diff.text:
        subprocess.run(["patch", "-s", "-p1", "--binary"], cwd=tmp_path, input=diff.text.encode(), check=True)
    assert (tmp_path / "f").read_text(encoding="utf-8") == (after + end).replace("\r\n", "\n")
    changes = [line for line in diff.text.split("\n")[2:] if line[:1] in "+-"]
    assert diff.added == sum(line[:1] == "+" for line in changes)
    assert diff.removed == sum(line[:1] == "-" for line in changes)


def test_a_large_diff_is_made_at_once():
    before = "".join(f"{n % 7}\n" for n in range(200_000))
    small = diffs.unified("f", before, before.replace("3\n", "three\n", 1))
    assert (small.added, small.removed) == (1, 1) and len(small.text) < 200
    whole = diffs.unified("f", before, before.replace("3\n", "three\n"))
    assert len(whole.text) <= diffs.MAX_DIFF_CHARS and "cut" in whole.text


def test_the_root_itself_is_untouched_by_reading(root: Path):
    before = fingerprint(root)
    asyncio.run(files.read_file(root, {"path": "readme.md"}))
    asyncio.run(files.list_files(root, {}))
    assert fingerprint(root) == before
