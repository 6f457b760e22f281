"""What the documents point at is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert missing == []


def test_tests_that_documents_name_exist():
    named = {name for document in DOCUMENTS for name in re.findall(r"`(tests/[\w/]+\.py::\w+)`", document.read_text())}
    assert len(named) > 30
    assert {name for name in named if not _is_test(*name.split("::"))} == set()


def _is_test(file: str, name: str) -> bool:
    path = ROOT / file
    return path.exists() and re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE) is not None
