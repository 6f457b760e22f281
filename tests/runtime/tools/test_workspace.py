"""No path, however written and whatever it meets on its way, reaches a byte outside the workspace."""

import os
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidechat_web.runtime.tools.registry import ToolError
from sidechat_web.runtime.tools.workspace import Workspace
from tests.runtime.tools.conftest import SECRET, fingerprint


def read(root: Path, path: str) -> str:
    with Workspace(root) as workspace, workspace.open(path) as file:
        return file.read().decode()


def write(root: Path, path: str, content: bytes = b"written", *, make: bool = True) -> None:
    with Workspace(root) as workspace, workspace.place(path, make=make) as place:
        workspace.replace(place, content)


@pytest.mark.parametrize(
    "path",
    [
        "readme.md", "./readme.md", "src/../readme.md", "src//.././/readme.md", "src/deep/../../readme.md", 
        "readme.md/",
    ],
)  # fmt: skip
def test_what_stays_inside_is_read(root, path):
    assert read(root, path).startswith("one")


def test_absolute_paths_below_the_root_are_taken(root, tmp_path):
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    assert read(root, str(root / "readme.md")).startswith("one")
    assert read(alias, str(alias / "readme.md")).startswith("one")
    assert read(alias, str(root / "src" / ".." / "readme.md")).startswith("one")


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt", "..", "../", "src/../../outside/secret.txt", "/etc/passwd", "/", "//etc/passwd",
        "{parent}/outside/secret.txt", "{root}/../outside/secret.txt", "{root}x/secret.txt",
        "", "readme.md\0", "\0", "src/\0/../readme.md", "a" * 256, "a/" * 3000, "\ud800", "\udcff",
        "~/secret.txt", "..\\outside\\secret.txt", "%2e%2e/outside/secret.txt", "file:///etc/passwd",
        "missing", "missing/../readme.md", "readme.md/x", "readme.md/..", ".", "src", "README.MD",
        "../Workspace/readme.md",
    ],
)  # fmt: skip
def test_what_is_not_a_file_of_the_workspace_is_refused(root, outside, path):
    before = fingerprint(root.parent)
    path = path.replace("{root}", str(root)).replace("{parent}", str(root.parent))
    with pytest.raises(ToolError) as refused:
        read(root, path)
    assert SECRET not in str(refused.value) and len(str(refused.value)) < 700
    str(refused.value).encode()
    assert fingerprint(root.parent) == before


@pytest.mark.parametrize(
    "path", ["../x", "/tmp/sidechat-test-x", "src/../../x", "", "x\0", "a" * 256, "src", ".", "a/.."]
)
def test_nothing_is_written_elsewhere(root, outside, path):
    with pytest.raises(ToolError):
        write(root, path)
    assert not (root.parent / "x").exists() and not Path("/tmp/sidechat-test-x").exists()


def test_links_inside_are_followed_by_hand(root):
    (root / "to-file").symlink_to("src/app.py")
    (root / "to-dir").symlink_to("src/deep")
    (root / "src" / "up").symlink_to("../readme.md")
    (root / "absolute").symlink_to(root / "readme.md")
    (root / "chain").symlink_to("to-file")
    assert read(root, "to-file") == read(root, "chain") == read(root, "src/app.py")
    assert read(root, "to-dir/util.ts") == read(root, "src/deep/util.ts")
    assert read(root, "to-dir/../app.py") == read(root, "src/app.py")  # '..' of the target, as the kernel has it
    assert read(root, "src/up") == read(root, "absolute") == read(root, "readme.md")


@pytest.mark.parametrize(
    "target",
    [
        "../outside/secret.txt",
        "{outside}/secret.txt",
        "/etc/passwd",
        "src/../../outside/secret.txt",
        "/proc/self/environ",
    ],
)
def test_links_outside_are_refused(root, outside, target):
    (root / "link").symlink_to(target.replace("{outside}", str(outside)))
    for act in (read, write):
        with pytest.raises(ToolError):
            act(root, "link")
    assert (outside / "secret.txt").read_text() == SECRET


def test_directory_links_outside_are_refused(root, outside):
    (root / "src" / "away").symlink_to(outside)
    (root / "src" / "parent").symlink_to("../..")
    for path in ("src/away/secret.txt", "src/parent/outside/secret.txt", "src/away/../outside/secret.txt"):
        with pytest.raises(ToolError):
            read(root, path)
    with pytest.raises(ToolError):
        write(root, "src/away/new.txt")
    assert sorted(p.name for p in outside.iterdir()) == ["secret.txt"]


def test_link_loops_end(root):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "self").symlink_to("self/x")
    for path in ("a", "self", "a/x"):
        with pytest.raises(ToolError):
            read(root, path)


def test_a_root_that_is_a_link_is_resolved_once(root, tmp_path, outside):
    link = tmp_path / "link"
    link.symlink_to(root)
    with Workspace(link) as workspace:
        link.unlink()
        link.symlink_to(outside)
        with workspace.open("readme.md") as file:
            assert file.read().startswith(b"one")
        with pytest.raises(ToolError):
            workspace.open("secret.txt")


@pytest.mark.parametrize("root_of", ["missing", "readme.md", "loop"])
def test_a_root_that_is_no_directory_is_refused(root, root_of):
    (root / "loop").symlink_to("loop")
    with pytest.raises(ToolError):
        Workspace(root / root_of)


def test_special_files_never_block(root):
    os.mkfifo(root / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "socket"))
    (root / "null").symlink_to("/dev/null")
    for name in ("fifo", "socket", "null"):
        for act in (read, write):
            with pytest.raises(ToolError):
                act(root, name)
    assert stat.S_ISFIFO((root / "fifo").stat().st_mode)
    server.close()


def test_the_servers_own_data_and_the_kernel_are_not_open(root, settings):
    settings.DATA_DIR = root / "data"
    settings.DATA_DIR.mkdir()
    (settings.DATA_DIR / "secret-key").write_text(SECRET)
    (root / "link").symlink_to("data")
    for path in ("data/secret-key", "link/secret-key", "src/../data/secret-key"):
        with pytest.raises(ToolError):
            read(root, path)
    with pytest.raises(ToolError):
        Workspace(settings.DATA_DIR)
    for path in ("proc/self/environ", "dev/zero", "/proc/self/environ"):
        with pytest.raises(ToolError):
            read(Path("/"), path)


def test_replacing_keeps_the_mode_and_other_hard_links(root, outside):
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    os.link(outside / "secret.txt", root / "hard")
    write(root, "run.sh", b"new")
    write(root, "hard", b"new")
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o751)
    assert (outside / "secret.txt").read_text() == SECRET


def test_a_failed_replace_leaves_nothing(root):
    with Workspace(root) as workspace, workspace.place("readme.md") as place:
        seen = os.stat(root / "src" / "app.py")
        before = fingerprint(root)
        with pytest.raises(ToolError, match="changed during the call"):
            workspace.replace(place, b"new", seen=seen)
    assert fingerprint(root) == before


def test_no_descriptor_is_left_open(root, outside):
    (root / "link").symlink_to(outside)
    open_before = len(os.listdir("/proc/self/fd"))
    for path in ("readme.md", "src/deep/util.ts", "link/secret.txt", "../x", "src/deep", "missing/x", "readme.md/x"):
        for act in (lambda p: read(root, p), lambda p: write(root, p + "/../q")):
            with suppress(ToolError):
                act(path)
    assert len(os.listdir("/proc/self/fd")) == open_before


NAMES = st.sampled_from(
    ["..", ".", "", "src", "deep", "readme.md", "away", "up", "abs", "loop", "in", "outside", "secret.txt", "workspace"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(parts=st.lists(NAMES, max_size=9), absolute=st.sampled_from(["", "/", "root", "parent"]))
def test_no_combination_leads_out(root, outside, parts, absolute):
    links = {"away": "../outside", "up": "..", "abs": str(outside), "loop": "loop", "in": "src/deep", "src/up": "../.."}
    for name, target in links.items():
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    prefix = {"root": f"{root}/", "parent": f"{root.parent}/"}.get(absolute, absolute)
    path = prefix + "/".join(parts)
    real = os.path.realpath(path if path.startswith("/") else f"{root}/{path}")
    try:
        text = read(root, path)
    except ToolError:
        return
    assert real.startswith(f"{root}/") and text == Path(real).read_text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(path=st.text(max_size=60))
def test_any_text_is_answered(root, outside, path):
    try:
        read(root, path)
    except ToolError as e:
        str(e).encode()


class Swapper:
    """A thread that swaps one name between a real thing and a link to the outside, as fast as it can."""

    def __init__(self, name: Path, honest: Path, link_to: Path) -> None:
        self._name, self._honest, self._evil = name, honest, name.with_name(name.name + "-evil")
        self._evil.symlink_to(link_to)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.swaps = 0

    def __enter__(self) -> "Swapper":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        spare = self._name.with_name(self._name.name + "-spare")
        while not self._stop.is_set():
            os.rename(self._name, self._honest)
            os.rename(self._evil, self._name)
            os.rename(self._name, spare)
            os.rename(spare, self._evil)
            os.rename(self._honest, self._name)
            self.swaps += 1


@pytest.mark.parametrize("victim", ["src", "src/app.py", "src/deep"])
def test_a_link_swapped_in_during_the_call_reads_and_writes_nothing_outside(root, outside, victim):
    away = outside / "app.py" if victim.endswith(".py") else outside
    for name in ("app.py", "util.ts"):
        (outside / name).write_text(SECRET)
    (outside / "deep").mkdir()
    (outside / "deep" / "util.ts").write_text(SECRET)
    before = fingerprint(outside)
    path = {"src": "src/deep/util.ts", "src/app.py": "src/app.py", "src/deep": "src/deep/util.ts"}[victim]
    seen = set()
    with Swapper(root / victim, (root / victim).with_name("honest"), away) as swapper:
        for _ in range(400):
            for act in (lambda: seen.add(read(root, path)), lambda: write(root, path, b"honest", make=False)):
                with suppress(ToolError):
                    act()
    assert swapper.swaps > 0 and seen and SECRET not in seen
    assert fingerprint(outside) == before
