"""A release's database with a few sessions, kept so that later versions are tested with it.

    python -m tests.operations.release_fixture tests/fixtures/release-0.1.0.sqlite3.zst

The product makes it: a main session after three turns and a compaction, a side whose note was merged, a fork, an
ordinary session with a failed turn.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import zstandard

from tests.faults.product import Product, wait_for
from tests.scripted_provider import ScriptedProvider


def make(file: Path) -> None:
    """Write the fixture to `file`."""
    with tempfile.TemporaryDirectory() as folder:
        with ScriptedProvider() as provider, Product(Path(folder), provider.base_url) as product:
            _sessions(product)
            product.terminate()
        alone = Path(folder) / "alone.sqlite3"
        with sqlite3.connect(Path(folder) / "sidechat.sqlite3") as database:
            database.execute("DELETE FROM accounts_apitoken")
            database.execute("DELETE FROM django_session")
            database.commit()
            database.execute("VACUUM INTO ?", [str(alone)])
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zstandard.ZstdCompressor(level=19).compress(alone.read_bytes()))


def _sessions(product: Product) -> None:
    main = _call(product, "POST", "/api/sessions", {"title": "Main"})["id"]
    for n in range(1, 4):
        _say(product, main, f"Question {n} [[say:Answer {n}.]]")
    side = _call(product, "POST", f"/api/sessions/{main}/fork", {"title": "Side", "text": "Why? [[say:Because.]]"})[
        "id"
    ]
    product.wait_idle(side)
    assert _call(product, "POST", f"/api/sessions/{side}/merge", {"text": "It is so because."})["seq"]
    _call(product, "POST", f"/api/sessions/{main}/fork", {"title": "Fork", "side": False})
    _call(product, "POST", f"/api/sessions/{main}/compact")
    wait_for(lambda: _is_compacted(product, main), 60, lambda: "the compaction did not end")
    product.wait_idle(main)
    failed = _call(product, "POST", "/api/sessions", {"title": "Failed"})["id"]
    _say(product, failed, "Question [[error:mid]]")


def _is_compacted(product: Product, session: str) -> bool:
    return any(event["type"] == "compaction/end" for event in product.events(session))


def _say(product: Product, session: str, text: str) -> None:
    _call(product, "POST", f"/api/sessions/{session}/messages", {"text": text})
    product.wait_idle(session)


def _call(product: Product, method: str, path: str, body: Any = None) -> Any:
    status, answer = product.call(method, path, body)
    assert status < 300, answer
    return answer


if __name__ == "__main__":
    make(Path(sys.argv[1]))
