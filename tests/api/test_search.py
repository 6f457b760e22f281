"""`GET /api/sessions?q=` finds what was said, on SQLite and on PostgreSQL alike."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.faults.product import Product
from tests.scripted_provider import ScriptedProvider
from tests.services import create_database, postgres_server

HOSTILE = ['"', "'", "*", "alpha OR NOT", "(((", "NEAR(", "col:", "\\", "%", ":*", "&|!<->", "😀"]


@pytest.fixture(params=["sqlite", "postgresql"])
def product(request, tmp_path, provider_server: ScriptedProvider) -> Iterator[Product]:
    if request.param == "sqlite":
        with Product(tmp_path, provider_server.base_url) as product:
            yield product
    else:
        with postgres_server() as server:
            address = create_database(server, "search")
            with Product(tmp_path, provider_server.base_url, DATABASE_URL=address) as product:
                yield product


def test_search_finds_what_was_said(product: Product):
    def found(query: str) -> dict[str, str]:
        status, answer = product.call("GET", f"/api/sessions?q={quote(query)}")
        assert status == 200, answer
        return {s["id"]: s.get("match", {}).get("text", "") for s in answer["sessions"]}

    _, main = product.call("POST", "/api/sessions", {"title": "Plans"})
    product.call(
        "POST", f"/api/sessions/{main['id']}/messages", {"text": "Why the Straße? [[say:Because päirs stay.]]"}
    )
    product.wait_idle(main["id"])
    _, aside = product.call("POST", f"/api/sessions/{main['id']}/fork", {"text": "Zebra? [[say:No.]]"})
    product.wait_idle(aside["id"])
    assert found("PAIRS sta") == {main["id"]: "Because päirs stay."}
    assert list(found("strass")) == list(found("plan")) == [main["id"]]
    assert found("zebra")[aside["id"]].startswith("Zebra?")
    assert found("airs") == found("advisor") == {}
    for query in HOSTILE:
        assert found(f"qqq {query}") == {}

    long = " ".join(f"w{n}" for n in range(30_000))
    product.call("POST", f"/api/sessions/{aside['id']}/messages", {"text": long})
    product.wait_idle(aside["id"])
    assert aside["id"] in found("w29999")

    product.call("DELETE", f"/api/sessions/{main['id']}?sides=keep")
    assert list(found("pairs")) == [aside["id"]]
    product.call("DELETE", f"/api/sessions/{aside['id']}")
    assert found("pairs") == found("zebra") == {}
