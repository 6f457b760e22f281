"""Real and crafted logs with what the original program answers, where the shared data stand beside the repository."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

_SUFFIX = ".expected.json"


@dataclass(frozen=True)
class Case:
    """One log of the corpus: `name` is `set/log`."""

    name: str
    expected_file: Path

    @cached_property
    def expected(self) -> dict[str, Any]:
        return json.loads(self.expected_file.read_bytes())

    @property
    def files(self) -> list[Path]:
        """The log's representations: plain text, zstd, or both."""
        stem = str(self.expected_file).removesuffix(_SUFFIX)
        return [path for end in (".jsonl", ".jsonl.zstd") if (path := Path(stem + end)).exists()]


def root() -> Path | None:
    for parent in Path(__file__).resolve().parents:
        if (found := parent / "shared/data/dsh").is_dir():
            return found
    return None


def cases() -> list[Case]:
    folder = root()
    if folder is None:
        return []
    found = [Case(str(path.relative_to(folder)).removesuffix(_SUFFIX), path) for path in folder.glob("*/*" + _SUFFIX)]
    return sorted((case for case in found if case.files), key=lambda case: case.name)


ALL = cases()
ACCEPTED = [case for case in ALL if case.expected["accepted"]]


def over(found: list[Case]) -> pytest.MarkDecorator:
    """Run a test for each of `found` as its argument `case`; not at all where the data are not there."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in found])
