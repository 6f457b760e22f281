"""Finding files and text: what matches, and that no pattern or tree holds the process up."""

import asyncio
import os

import pytest

from sidechat_web.runtime.tools import patterns, search
from sidechat_web.runtime.tools.registry import OUTPUT_CAP_CHARS, ToolError
from tests.runtime.tools.conftest import SECRET


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/x"]),
        ("x/*.py", ["x/a.py"], ["x/y/a.py", "z/x/a.py", "a.py"]),
        ("x/**/*.py", ["x/a.py", "x/y/z/a.py"], ["a.py", "xx/a.py"]),
        ("**/a.py", ["a.py", "x/y/a.py"], ["xa.py"]),
        ("x/**", ["x/a", "x/y/z"], ["x", "y/x/a"]),
        ("*.{ts,tsx}", ["a.ts", "b/c.tsx"], ["a.t", "a.tsxx", "a.{ts,tsx}"]),
        ("{a,b/c}/d", ["a/d", "b/c/d"], ["c/d"]),
        ("f?.txt", ["f1.txt"], ["f.txt", "f/.txt", "f12.txt"]),
        ("[a-c][!x].md", ["bz.md"], ["dz.md", "bx.md", "b/.md"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a{b", ["a{b"], ["ab"]),
        (r"\*.md", ["*.md"], ["x.md"]),
        ("a+b(c).txt", ["a+b(c).txt"], ["aab(c).txt"]),
        ("./x/a", ["x/a"], ["y/x/a"]),
        ("[]x]", ["]", "x"], ["[]x]"]),
    ],
)
def test_patterns(pattern, matches, others):
    compiled = patterns.compiled(pattern)
    assert [p for p in matches if not compiled.match(p)] == []
    assert [p for p in others if compiled.match(p)] == []


@pytest.mark.parametrize("pattern", ["", "../*", "a/../b", "x" * 2000, "{a,{b}", "[z-a]"])
def test_bad_patterns(pattern):
    with pytest.raises(ToolError):
        patterns.compiled(pattern)


async def test_glob(root, outside):
    (root / "away").symlink_to(outside)
    (root / "link.py").symlink_to("src/app.py")
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / "node_modules" / "x" / "dep.py").touch()
    os.mkfifo(root / "pipe.py")
    assert (await search.glob(root, {"pattern": "*.py"})).text == "src/app.py"
    assert (await search.glob(root, {"pattern": "node_modules/**/*.py"})).text == "node_modules/x/dep.py"
    assert (await search.glob(root, {"pattern": f"{root}/src/*.py"})).text == "src/app.py"
    assert (await search.glob(root, {"pattern": "*.txt"})).text == "No file matches."
    with pytest.raises(ToolError):
        await search.glob(root, {"pattern": f"{outside}/*"})


async def test_grep(root, outside):
    (root / "away").symlink_to(outside)
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "image").write_bytes(b"\0import")
    result = await search.grep(root, {"pattern": r"^import (\w+)$"})
    assert result.text == "src/app.py:1:import os\n[1 binary file not searched]"
    assert (await search.grep(root, {"pattern": "(?i)ONE"})).text.startswith("readme.md:1:one")
    assert (await search.grep(root, {"pattern": "o", "path": "src", "glob": "*.ts"})).text == (
        "src/deep/util.ts:1:export const x = 1"
    )
    assert (await search.grep(root, {"pattern": "two", "path": "readme.md"})).text == "readme.md:2:two"
    for path in (".", "link", "away"):
        try:
            assert SECRET not in (await search.grep(root, {"pattern": "secret", "path": path})).text
        except ToolError as e:
            assert "out of the workspace" in str(e)


@pytest.mark.parametrize(
    "arguments", [{"pattern": "("}, {"pattern": ""}, {"pattern": "(" * 1500}, {}, {"pattern": "a" * 3000}]
)
async def test_bad_regular_expressions(root, arguments):
    with pytest.raises(ToolError):
        await search.grep(root, arguments)


@pytest.mark.parametrize("path", ["missing", "../outside", "pipe"])
async def test_grep_of_what_is_not_there(root, outside, path):
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolError):
        await search.grep(root, {"pattern": "x", "path": path})


async def test_an_exploding_pattern_ends_and_leaves_the_loop_free(root):
    (root / "a.txt").write_text("a" * 300)
    task = asyncio.create_task(search.grep(root, {"pattern": r"(a|aa)+$\b!"}))
    beats = 0
    while not task.done():
        await asyncio.sleep(0.01)
        beats += 1
    result = await task
    assert "the pattern takes too long" in result.text and beats > 5


async def test_a_long_search_says_that_it_stopped(root, monkeypatch):
    monkeypatch.setattr(search, "SECONDS", 0.0)
    for call in (search.grep(root, {"pattern": "one"}), search.glob(root, {"pattern": "*.py"})):
        assert "stopped after 0 seconds" in (await call).text


async def test_a_search_ends_when_its_call_is_cancelled(root):
    (root / "a.txt").write_text(("x" * 20 + "\n") * 8000)
    task = asyncio.create_task(search.grep(root, {"pattern": r"(x+x+)+[yz]"}))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_floods_are_cut(root):
    (root / "many.txt").write_text(("match " * 200 + "\n") * 5000)
    result = await search.grep(root, {"pattern": "match"})
    assert "more than 300 lines match" in result.text and len(result.text) <= OUTPUT_CAP_CHARS
    many = root / "many"
    many.mkdir()
    for n in range(1100):
        (many / f"{'n' * 100}{n}").touch()
    result = await search.glob(root, {"pattern": "many/*"})
    assert "more than 1000 files match" in result.text and len(result.text) <= OUTPUT_CAP_CHARS


async def test_a_long_line_is_shown_around_its_match(root):
    (root / "min.js").write_text("x" * 5000 + "needle" + "y" * 5000)
    text = (await search.grep(root, {"pattern": "needle"})).text
    assert "needle" in text and len(text) < 330


async def test_a_deep_tree_is_walked_as_deep_as_paths_go(root):
    deep = root
    for _ in range(150):
        deep = deep / "d"
        deep.mkdir()
    (deep / "bottom").touch()
    assert (await search.glob(root, {"pattern": "bottom"})).text == "No file matches."
