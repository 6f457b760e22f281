"""Providers that were added in Settings, beside the environment's."""

import logging

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.runtime import commands
from sidechat_web.runtime.providers import catalog, stored, trial
from sidechat_web.storage import reading, secrets
from sidechat_web.storage.models import StoredProvider
from tests.conftest import idle

KEY = "stored-key-of-the-tests-0123456789"
URL = "http://127.0.0.1:9/v1"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_else(settings):
    settings.SIDECHAT_LOCAL_MODEL = False
    settings.SIDECHAT_DEFAULT_MODEL = settings.SIDECHAT_OPENAI_BASE_URL = ""


def test_a_stored_provider_is_one_like_the_environments():
    stored.add("box", KEY, label="Box", base_url=URL + "/", default_model="m")
    found = catalog.providers()["box"]
    assert (found.label, found.base_url, found.api_key, found.protocol) == ("Box", URL, KEY, "openai")
    assert catalog.default_config() == {"provider": "box", "model": "m"}


def test_the_wire_of_a_provider_stands_in_the_config():
    stored.add("proxy", KEY, base_url="https://h.example/v1/", protocol="anthropic")
    assert catalog.providers()["proxy"].base_url == "https://h.example"
    assert catalog.config("proxy/m") == {"provider": "proxy", "model": "m", "protocol": "anthropic"}


def test_the_environment_wins_on_the_same_name_and_stands_first(settings):
    stored.add("openai", KEY, base_url=URL)
    stored.add("box", KEY, base_url=URL)
    settings.OPENAI_API_KEY = "of-the-environment"
    assert list(catalog.providers()) == ["openai", "box"]
    assert catalog.providers()["openai"].api_key == "of-the-environment"


def test_switched_off_changed_and_removed_at_once():
    stored.add("box", KEY, base_url=URL)
    stored.change("box", enabled=False)
    assert catalog.providers() == {}
    stored.change("box", enabled=True, label="New")
    assert (catalog.providers()["box"].label, catalog.providers()["box"].api_key) == ("New", KEY)
    stored.change("box", key="")
    assert catalog.providers()["box"].api_key == stored.NO_KEY
    stored.remove("box")
    assert catalog.providers() == {}


def test_the_key_is_encrypted_at_rest_and_stands_in_no_word_of_the_row():
    row = stored.add("box", KEY, base_url=URL)
    held = bytes(StoredProvider.objects.get().key)
    assert KEY.encode() not in held and secrets.decrypt(held) == KEY
    assert KEY not in f"{row!r} {row}"


def test_a_key_that_cannot_be_read_leaves_its_provider_out_and_harms_no_other(caplog):
    stored.add("box", KEY, base_url=URL)
    stored.add("other", KEY, base_url=URL)
    StoredProvider.objects.filter(name="box").update(key=b"damaged")
    with caplog.at_level(logging.WARNING):
        assert list(catalog.providers()) == ["other"]
    assert "enter it again" in caplog.text and KEY not in caplog.text
    assert not stored.is_readable(StoredProvider.objects.get(name="box"))


def test_a_stored_key_never_goes_to_another_server():
    stored.add("box", KEY, base_url="https://good.example/v1")
    for address in ("https://evil.example/v1", "http://good.example/v1", "https://good.example:99/v1"):
        with pytest.raises(stored.BadProvider, match="enter the key again"):
            stored.change("box", base_url=address)
    stored.change("box", base_url="https://good.example/v2")
    assert catalog.providers()["box"].base_url == "https://good.example/v2"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("", {}),
        ("Box", {}),
        ("a/b", {}),
        ("-a", {}),
        ("local", {}),
        ("a" * 41, {}),
        ("box", {"base_url": "ftp://h/"}),
        ("box", {"base_url": "http://"}),
        ("box", {"base_url": "http://h:x/"}),
        ("box", {"base_url": "https://u:p@h/"}),
        ("box", {"base_url": "https://h/?key=1"}),
        ("box", {"key": "two words"}),
        ("box", {"key": "line\nfeed-0123"}),
        ("box", {"key": "ключ"}),
    ],
)
def test_what_is_refused_says_why_without_the_key(name, fields):
    with pytest.raises(stored.BadProvider) as refused:
        stored.add(name, **{"key": KEY, "base_url": URL, **fields})
    assert KEY not in refused.value.message and fields.get("key", KEY) not in refused.value.message
    assert not StoredProvider.objects.exists()


def test_a_name_is_taken_once():
    stored.add("box", KEY, base_url=URL)
    with pytest.raises(stored.BadProvider, match="already"):
        stored.add("box", KEY, base_url=URL)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_trial_is_one_real_request(provider_server, protocol):
    provider_server.forget()
    stored.add("box", KEY, base_url=provider_server.base_url, protocol=protocol)
    tried = trial.ask("box", "scripted")
    assert (tried.answered, tried.model, tried.said[:9]) == (True, "scripted", "You said:")
    assert len(provider_server.bodies) == 1


def test_a_trial_that_fails_has_the_providers_own_words_without_the_key(provider_server):
    provider_server.forget()
    stored.add("box", KEY, base_url=URL)
    assert "cannot reach box" in trial.ask("box", "m").said
    assert "cannot reach box" in trial.ask("box").said
    with pytest.raises(catalog.NoModel):
        trial.ask("gone", "m")


@pytest.mark.django_db(transaction=True)
async def test_a_session_chats_through_a_stored_provider(owner, running, provider, settings):
    settings.SIDECHAT_OPENAI_BASE_URL = settings.SIDECHAT_DEFAULT_MODEL = ""
    await sync_to_async(stored.add)("box", KEY, base_url=provider.base_url, default_model="scripted")
    session = await sync_to_async(commands.create)(owner)
    await sync_to_async(commands.say)(session, "hello")
    await idle(session)
    events = await sync_to_async(lambda: list(reading.events(session)))()
    assert session.last_reason == {"kind": "completed"}
    assert KEY not in repr(events)
