"""Which servers there are, what they are called, and that what they offer has one form."""

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Tool as Offered

from sidechat_web.core import jsontext
from sidechat_web.runtime.tools.mcp import listing, servers, source
from sidechat_web.runtime.tools.mcp.listing import Listed, canonical, qualified
from sidechat_web.runtime.tools.mcp.servers import Server, parse
from sidechat_web.storage.models import McpListing


def one(entry):
    found, problems = parse({"mcpServers": {"s": entry}})
    assert not problems, problems
    return found[0]


@pytest.fixture
def data(tmp_path, settings):
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return settings.DATA_DIR


def test_the_usual_shape(monkeypatch):
    monkeypatch.setenv("TEST_TOKEN", "secret-token")
    stdio = one(
        {"command": "npx", "args": ["-y", "x"], "env": {"B": "2", "A": "${TEST_TOKEN}"}, "cwd": "${NONE_SUCH:-/w}"}
    )
    assert stdio == Server(
        "s", "npx", ("-y", "x"), (("A", "secret-token"), ("B", "2")), "/w", trusted=False, seconds=servers.SECONDS
    )
    http = one(
        {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${TEST_TOKEN}"}, "trusted": True}
    )
    assert (http.url, http.headers, http.trusted) == (
        "https://x/mcp",
        (("Authorization", "Bearer secret-token"),),
        True,
    )
    assert one({"command": "x", "timeoutSeconds": 5}).seconds == 5


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, "either 'command'"),
        ({"command": "x", "url": "http://x"}, "either 'command'"),
        ({"type": "sse", "url": "http://x"}, "'sse' is not supported"),
        ({"url": "ftp://x"}, "http:// or https://"),
        ({"command": 7}, "'command' must be a string"),
        ({"command": "a\0b"}, "'command' must be a string"),
        ({"command": "x", "args": "-y"}, "'args' must be an array of strings"),
        ({"command": "x", "env": {"A": 1}}, "'env' must be an object of strings"),
        ({"command": "x", "trusted": "yes"}, "'trusted' must be true or false"),
        ({"command": "x", "timeoutSeconds": 0}, "from 1 to 3600"),
        ({"command": "x", "timeoutSeconds": True}, "from 1 to 3600"),
        ({"command": "${NONE_SUCH}"}, "NONE_SUCH is not set"),
        ("npx x", "expected an object"),
        (None, "expected an object"),
    ],
)
def test_a_bad_entry_is_named_and_the_others_stay(entry, expected):
    found, problems = parse({"mcpServers": {"bad": entry, "good": {"command": "x"}, "off": {"disabled": True}}})
    assert [server.name for server in found] == ["good"]
    [problem] = problems
    assert "'bad'" in problem and expected in problem


@pytest.mark.parametrize("text", ["", "{", "[]", '{"servers": {}}', '{"mcpServers": []}', "[" * 100_000, "\xff"])
def test_a_bad_file_is_no_crash(data, text, caplog):
    (data / "mcp.json").write_text(text, encoding="latin-1")
    assert servers.configured() == []
    assert servers.read_file(data / "mcp.json")[1]


def test_no_file_is_no_servers(data):
    assert servers.configured() == [] and list(source.source(None, "/w")) == []


def test_feeds_add_up_and_the_first_wins(data, monkeypatch):
    (data / "mcp.json").write_text(json.dumps({"mcpServers": {"b": {"command": "file"}, "a": {"command": "file"}}}))
    monkeypatch.setattr(servers, "feeds", [servers.from_file, lambda: [Server("b", "other"), Server("c", "other")]])
    assert [(s.name, s.command) for s in servers.configured()] == [("a", "file"), ("b", "file"), ("c", "other")]


def test_secrets_are_left_out_of_what_is_shown():
    server = Server("s", "x", env=(("T", "abcdefgh"), ("SHORT", "1")), headers=(("Authorization", "Bearer tok-12345"),))
    assert server.without_secrets("T=abcdefgh 1 Bearer tok-12345 tok-12345") == "T=… 1 … …"


@pytest.mark.parametrize(
    ("server", "tool", "expected"),
    [
        ("files", "read_file", "files__read_file"),
        ("my-server", "get-it", "my-server__get-it"),
        ("my server", "get.it", "my_server__get_it_"),
        ("a__b", "c", "a_b__c_"),
        ("a", "_b", "a__b_"),
        ("größe", "x", "gr_e__x_"),
        ("日本", "語", "x__x_"),
        ("s" * 40, "t" * 40, "s" * 40),
    ],
)
def test_names(server, tool, expected):
    name = qualified(server, tool)
    assert name == expected or (name.startswith(expected) and len(name) <= 64)


NAMES = st.text(alphabet="ab_-. é", min_size=1, max_size=8) | st.text(min_size=1, max_size=80)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_a_name_stands_for_one_pair(a, b):
    for pair in (a, b):
        name = qualified(*pair)
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert a == b or qualified(*a) != qualified(*b)


def offered(name="t", schema=None, **rest):
    return Offered(name=name, input_schema=schema if schema is not None else {"type": "object"}, **rest)


def test_one_form_whatever_the_order():
    a = {"type": "object", "required": ["y", "x"], "properties": {"y": {"enum": ["b", "a"], "type": "string"}, "x": {}}}
    b = {"properties": {"x": {}, "y": {"type": "string", "enum": ["b", "a"]}}, "type": "object", "required": ["x", "y"]}
    [one], [two] = canonical([offered(schema=a)]), canonical([offered(schema=b)])
    assert jsontext.dumps(one.parameters) == jsontext.dumps(two.parameters)
    assert one.parameters["properties"]["y"]["enum"] == ["b", "a"]
    many = [offered(name) for name in ("c", "a", "b")]
    assert canonical(many) == canonical(many[::-1]) and [t.name for t in canonical(many)] == ["a", "b", "c"]


def test_data_in_a_schema_is_not_touched():
    schema = {"type": "object", "default": {"required": ["b", "a"]}, "properties": {"required": {"type": "string"}}}
    [tool] = canonical([offered(schema=schema)])
    assert tool.parameters == schema


def test_what_floods_or_is_not_valid_is_left_out():
    deep: dict = {}
    for _ in range(2000):
        deep = {"properties": {"x": deep}}
    bad = [
        offered("huge", {"type": "object", "description": "x" * 40_000}), offered("deep", deep),
        offered("nan", {"type": "object", "default": float("nan")}), offered(""), offered("n" * 2000),
    ]  # fmt: skip
    assert canonical([*bad, offered("good")]) == canonical([offered("good")])
    [long] = canonical([offered(description="x" * 10_000)])
    assert len(long.description) < 4100
    assert len(canonical(offered(str(n)) for n in range(500))) == listing.MAX_TOOLS


def test_only_true_is_a_claim():
    for hint, expected in ((True, True), (False, False), (None, False)):
        [tool] = canonical([offered(annotations=SimpleNamespace(read_only_hint=hint) and {"readOnlyHint": hint})])
        assert tool.claims_read_only is expected


@pytest.mark.parametrize(("trusted", "claims", "read_only"), [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 0)])
def test_read_only_takes_the_claim_and_the_trust(trusted, claims, read_only):
    listed = Listed("t", "", {}, bool(claims))
    assert source.tool_of(Server("s", "x", trusted=bool(trusted)), listed).read_only is bool(read_only)


@pytest.mark.django_db
def test_a_listing_is_kept_and_a_failure_keeps_the_tools():
    server = Server("s", "x", env=(("TOKEN", "abcdefgh"),))
    assert listing.read(server) is None
    tools = canonical([offered("b"), offered("a")])
    kept = listing.keep(server, tools)
    assert listing.read(server) == kept and kept.tools == tools and kept.at > 0
    assert listing.keep(server, tools) == kept
    assert listing.keep_failure(server, "gone \0 \ud800").tools == tools
    assert listing.read(server).error == "gone \0 \ud800"
    assert listing.keep(server, tools).error == ""
    assert "abcdefgh" not in McpListing.objects.get().content


@pytest.mark.django_db
def test_another_server_of_that_name_has_another_listing():
    server = Server("s", "x")
    listing.keep(server, canonical([offered()]))
    assert listing.read(Server("s", "y")) is None
    assert listing.read(Server("s", "x", trusted=True, seconds=5, env=())) is not None
