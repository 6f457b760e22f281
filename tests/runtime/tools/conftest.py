"""A workspace, and beside it what must never be seen or touched."""

import hashlib
from pathlib import Path

import pytest

SECRET = "the secret of the outside"


@pytest.fixture
def root(tmp_path) -> Path:
    root = tmp_path / "workspace"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "readme.md").write_text("one\ntwo\nthree\n")
    (root / "src" / "app.py").write_text("import os\n\n\ndef main():\n    return os.getcwd()\n")
    (root / "src" / "deep" / "util.ts").write_text("export const x = 1\n")
    return root


@pytest.fixture
def outside(tmp_path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    return outside


def fingerprint(directory: Path) -> dict[str, tuple[str, int]]:
    """Everything below a directory: contents and modes."""
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else "",
            path.lstat().st_mode,
        )
        for path in sorted(directory.rglob("*"))
    }
