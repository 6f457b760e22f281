"""Where a folder tree keeps session logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".jsonl", ".jsonl.zstd", ".jsonl.zst")


def log_files(root: Path) -> Iterator[Path]:
    """The logs at or below `root`, in the order of their paths; a path to a file is taken as it is."""
    if not root.is_dir():
        yield root
        return
    yield from sorted(path for path in root.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file())
