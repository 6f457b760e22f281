"""The settings page: providers and MCP servers, for admins alone, with and without htmx."""

import json
import re
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sidechat_web.accounts.users import LOCAL_NAME
from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, spending
from sidechat_web.runtime.providers import catalog, listing, stored
from sidechat_web.storage.models import Session, StoredProvider

from .conftest import asked, ended, write

KEY = "page-key-of-the-tests-0123456789"
URL = "http://127.0.0.1:9/v1"
FORM = {"name": "box", "label": "Box", "protocol": "openai", "base_url": URL, "key": KEY, "enabled": "on"}
SERVER = Path(__file__).parents[1] / "runtime" / "tools" / "mcp_server.py"
READ = ["/settings/", "/settings/providers/new", "/settings/providers/box", "/settings/mcp/server"]
ACT = [
    "/settings/providers/new",
    "/settings/providers/box",
    "/settings/providers/box/test",
    "/settings/providers/box/remove",
    "/settings/mcp/server",
    "/settings/mcp/trust",
    "/settings/mcp/test",
    "/settings/mcp/remove",
]


@pytest.fixture(autouse=True)
def data(tmp_path, settings):
    settings.DATA_DIR = tmp_path
    settings.SIDECHAT_LOCAL_MODEL = False
    listing._answers.clear()
    return tmp_path


@pytest.fixture
def owner(db):
    return User.objects.create(username="ann", is_superuser=True)


@pytest.fixture
def box(db):
    return stored.add("box", KEY, label="Box", base_url=URL, default_model="m")


def text_of(response):
    return re.sub(r"\s+", " ", response.content.decode())


@pytest.mark.parametrize(("method", "path"), [("get", p) for p in READ] + [("post", p) for p in ACT])
def test_only_admins_get_in(stranger, box, method, path):
    assert getattr(stranger, method)(path, {**FORM, "base_url": "http://other/"}).status_code == 404
    assert StoredProvider.objects.get().base_url == URL
    assert Client().get(path).status_code in (302, 405)


def test_the_link_to_it_is_shown_to_those_who_get_in(client, stranger):
    assert 'href="/settings/"' in text_of(client.get("/new/"))
    assert 'href="/settings/"' not in text_of(stranger.get("/new/"))


def test_the_local_user_gets_in_on_a_loopback_start(db, settings):
    settings.SIDECHAT_LOCAL_MODE = True
    assert Client().get("/settings/").status_code == 200
    assert User.objects.get().username == LOCAL_NAME


@pytest.mark.parametrize("path", READ)
def test_an_admin_reads(client, htmx, box, path):
    assert client.get(path).status_code == htmx.get(path).status_code == 200
    assert "dict_values" not in text_of(client.get(path))


def test_a_provider_is_added_changed_and_removed(client):
    assert client.post("/settings/providers/new", FORM).url == "/settings/"
    assert catalog.providers()["box"].api_key == KEY
    page = text_of(client.get("/settings/"))
    assert "Box is added." in page and URL in page and "added here" in page
    client.post("/settings/providers/box", {**FORM, "label": "New", "key": ""})
    assert (catalog.providers()["box"].label, catalog.providers()["box"].api_key) == ("New", KEY)
    client.post("/settings/providers/box", {**FORM, "enabled": ""})
    assert "Switched off." in text_of(client.get("/settings/"))
    client.post("/settings/providers/box", {**FORM, "key": "", "without_key": "on"})
    assert catalog.providers()["box"].api_key == stored.NO_KEY
    assert client.post("/settings/providers/box/remove").url == "/settings/"
    assert "box" not in catalog.providers()
    assert client.get("/settings/providers/box").status_code == 404


@pytest.mark.parametrize("kind", ["openai", "anthropic", "deepseek", "gemini", "nonsense"])
def test_a_vendor_comes_with_what_is_usual(client, kind):
    page = text_of(client.get(f"/settings/providers/new?kind={kind}"))
    assert (f'value="{kind}"' in page) == (kind != "nonsense")


def test_of_two_with_one_name_the_page_says_which_answers(client, settings):
    stored.add("openai", KEY, label="OpenAI", base_url="https://api.openai.com/v1")
    assert "wins over" not in text_of(client.get("/settings/"))
    settings.OPENAI_API_KEY = "k" * 12
    settings.OPENAI_BASE_URL = URL
    assert "from the environment – wins over the one that was added here" in text_of(client.get("/settings/"))


def test_a_refusal_says_why_where_the_form_is_and_keeps_what_was_typed_but_the_key(client, htmx):
    bad = {**FORM, "base_url": "ftp://h/"}
    plain, part = client.post("/settings/providers/new", bad), htmx.post("/settings/providers/new", bad)
    assert plain.status_code == part.status_code == 422
    assert "An address looks like" in text_of(plain) and "ftp://h/" in text_of(plain)
    assert text_of(part).strip() == "An address looks like https://example.org/v1."
    assert KEY not in text_of(plain)


def test_a_key_is_never_shown(client, htmx, box):
    pages = [client.get(path) for path in ("/settings/", "/settings/providers/box", "/new/")]
    pages += [client.post("/settings/providers/box/test"), htmx.get("/settings/providers/box/models")]
    pages += [client.post("/settings/providers/new", FORM)]
    assert all(KEY not in text_of(page) for page in pages)


def test_a_test_shows_the_answer(client, htmx, provider_server):
    provider_server.forget()
    stored.add("real", KEY, base_url=provider_server.base_url, default_model="scripted")
    for answer in (client.post("/settings/providers/real/test"), htmx.post("/settings/providers/real/test")):
        assert "<strong>scripted</strong> answered in" in text_of(answer) and "You said:" in text_of(answer)
    assert len(provider_server.bodies) == 2
    assert "2 models" in text_of(htmx.get("/settings/providers/real/models"))


def test_a_test_that_fails_shows_the_providers_words_without_the_key(htmx, provider_server):
    provider_server.forget()
    provider_server.refusal_words = f"no such model for {KEY}"
    stored.add("real", KEY, base_url=provider_server.base_url)
    said = text_of(htmx.post("/settings/providers/real/test", {"model": "[[status:404]]"}))
    gone = text_of(htmx.post("/settings/providers/gone/test"))
    assert "is not in use" in gone and KEY not in said


def test_mcp_servers_are_written_to_the_file_in_the_usual_shape(client, data):
    (data / "mcp.json").write_text('{"mcpServers": {}, "theirs": 1}')
    form = {"name": "notes", "command": "npx -y 'a b' /srv", "pairs": "TOKEN=literal\nB=${B:-x}", "enabled": "on"}
    assert client.post("/settings/mcp/server", form).url == "/settings/"
    entry = {"command": "npx", "args": ["-y", "a b", "/srv"], "env": {"TOKEN": "literal", "B": "${B:-x}"}}
    assert json.loads((data / "mcp.json").read_text()) == {"mcpServers": {"notes": entry}, "theirs": 1}
    assert (data / "mcp.json").stat().st_mode & 0o077 == 0
    form = {"name": "web", "url": "http://127.0.0.1:9/mcp", "pairs": "Authorization=Bearer literal"}
    client.post("/settings/mcp/server", form)
    web = json.loads((data / "mcp.json").read_text())["mcpServers"]["web"]
    assert web == {"url": form["url"], "headers": {"Authorization": "Bearer literal"}, "disabled": True}
    page = text_of(client.get("/settings/"))
    assert "notes" in page and "Switched off." in page and "literal" not in page
    client.post("/settings/mcp/remove", {"name": "web"})
    assert list(json.loads((data / "mcp.json").read_text())["mcpServers"]) == ["notes"]


def test_a_stored_value_is_kept_unseen_and_for_its_server_only(client, data):
    entry = {"url": "https://good/mcp", "headers": {"Key": "literal", "Ref": "${REF:-r}"}, "timeoutSeconds": 9}
    (data / "mcp.json").write_text(json.dumps({"mcpServers": {"web": entry}}))
    page = text_of(client.get("/settings/mcp/server?name=web"))
    assert "literal" not in page and "Key=••••••" in page
    form = {"name": "web", "url": "https://good/v2", "pairs": "Key=••••••\nNew=1", "enabled": "on", "trusted": "on"}
    assert client.post("/settings/mcp/server?name=web", form).status_code == 302
    now = json.loads((data / "mcp.json").read_text())["mcpServers"]["web"]
    headers = {"Key": "literal", "New": "1"}
    assert now == {"url": "https://good/v2", "headers": headers, "trusted": True, "timeoutSeconds": 9}
    refused = client.post("/settings/mcp/server?name=web", {**form, "url": "https://evil/v2"})
    assert refused.status_code == 422 and "was given for another server" in text_of(refused)


@pytest.mark.parametrize(
    "form",
    [
        {"name": "", "command": "x"},
        {"name": "a/b", "command": "x"},
        {"name": "a"},
        {"name": "a", "command": "x", "url": "http://h/"},
        {"name": "a", "command": "x 'y"},
        {"name": "a", "url": "ftp://h/"},
        {"name": "a", "command": "x", "pairs": "no equals sign"},
        {"name": "a", "command": "x", "pairs": "A=••••••"},
        {"name": "a", "command": "x", "pairs": "A=${NONE_SUCH_VARIABLE}"},
    ],
)
def test_what_is_no_server_is_refused_and_nothing_is_written(client, data, form):
    answer = client.post("/settings/mcp/server", {"enabled": "on", **form})
    assert answer.status_code == 422 and 'class="refusal"' in text_of(answer)
    assert not (data / "mcp.json").exists()


def test_a_test_lists_a_real_servers_tools_and_trust_counts(transactional_db, client, htmx, data):
    form = {"name": "real", "command": f"{sys.executable} {SERVER} {data}", "enabled": "on"}
    client.post("/settings/mcp/server", form)
    assert "Not listed yet." in text_of(client.get("/settings/"))
    listed = text_of(htmx.post("/settings/mcp/test", {"name": "real"}))
    assert "real__echo" in listed and "read-only" not in listed
    client.post("/settings/mcp/trust", {"name": "real", "trusted": "1"})
    page = text_of(client.get("/settings/"))
    assert '<code>real__write</code> <span class="mark">asks</span>' in page
    assert "read-only" in page and "Trust no longer" in page


def test_a_server_that_does_not_answer_says_why(transactional_db, client, data):
    client.post("/settings/mcp/server", {"name": "none", "command": "/no/such/program", "enabled": "on"})
    assert client.post("/settings/mcp/test", {"name": "none"}).url == "/settings/"
    assert "could not be reached" in text_of(client.get("/settings/"))


def test_a_file_that_is_not_json_is_left_alone(client, data):
    (data / "mcp.json").write_text("{ no json")
    assert "The file mcp.json is not JSON" in text_of(client.get("/settings/"))
    client.post("/settings/mcp/server", {"name": "a", "command": "x", "enabled": "on"})
    client.post("/settings/mcp/remove", {"name": "a"})
    assert (data / "mcp.json").read_text() == "{ no json"


def test_an_entry_that_cannot_be_used_says_why(client, data):
    odd = {"odd": 5, "sse": {"type": "sse", "url": "http://h/"}, "shapes": {"command": "x", "args": 1, "env": 2}}
    (data / "mcp.json").write_text(json.dumps({"mcpServers": odd}))
    page = text_of(client.get("/settings/"))
    assert "Expected an object." in page and "is not supported" in page
    for name in odd:
        assert client.get(f"/settings/mcp/server?name={name}").status_code == 200


def test_the_meter_says_context_cache_and_cost_and_the_model_leads_to_the_picker(client, session):
    page = text_of(client.get(f"/s/{session.pk}/"))
    assert "tokens of context · 96 % of all input came from the cache" in page and "so far" not in page
    assert f'href="/s/{session.pk}/settings"' in page
    write(session, [*asked(3, "And?"), priced(3, "Done."), *ended(3)])
    page = text_of(client.get(f"/s/{session.pk}/"))
    assert re.search(r"\$0\.0\d\d so far, where prices are known", page)
    write(session, [*asked(4, "And?"), priced(4, "Done."), *ended(4)])
    assert spending.spent(session).priced == 2
    assert re.search(r"written – \$0\.0\d\d", text_of(client.get(f"/s/{session.pk}/settings")))


def test_a_fork_pays_for_its_own_requests_only(session, owner):
    write(session, [*asked(3, "And?"), priced(3, "Done."), *ended(3)])
    assert spending.spent(session).priced == 1
    assert spending.spent(commands.fork(session)).priced == 0


def test_another_model_is_chosen_and_what_it_costs_is_said(client, session, box):
    dialog = text_of(client.get(f"/s/{session.pk}/settings"))
    assert "of this session anew: its cache has none of them" in dialog and 'value="box/m"' in dialog
    client.post(f"/s/{session.pk}/settings", {"title": "T", "model": "box/other"})
    assert "box/other" in text_of(client.get(f"/s/{session.pk}/"))


def test_a_session_begins_with_a_model_of_the_list_or_another(client, box):
    assert '<option value="box/m">' in text_of(client.get("/new/"))
    client.post("/new/", {"text": "hello", "model": "box/free", "key": "k"})
    assert Session.objects.get().settings["header"]["config"] == {"provider": "box", "model": "free"}
    refused = client.post("/new/", {"text": "hello", "model": "none/m", "key": "k2"})
    assert refused.status_code == 422 and 'value="none/m"' in text_of(refused)


def priced(turn, text):
    """An answer of a model with known prices."""
    source = {"kind": "model", "provider": "openai", "model": "gpt-5-mini"}
    message = {"id": f"a{turn}", "role": "assistant", "content": [{"type": "text", "text": text}], "source": source}
    return ev.assistant_message(turn, 1, message, {"inputTokens": 40_000, "outputTokens": 2000})
