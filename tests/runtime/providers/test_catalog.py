"""Which providers are configured, and what goes into a header."""

import pytest

from sidechat_web.runtime.providers import catalog

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY")


@pytest.fixture(autouse=True)
def _none(db, settings):
    settings.SIDECHAT_LOCAL_MODEL = False
    settings.SIDECHAT_DEFAULT_MODEL = settings.SIDECHAT_OPENAI_BASE_URL = ""


def test_a_provider_exists_as_soon_as_its_variable_is_set(settings):
    assert catalog.providers() == {}
    for name in KEYS:
        setattr(settings, name, "k" * 12)
    settings.OLLAMA_HOST = "box"
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:1/v1"
    assert list(catalog.providers()) == ["custom", "openai", "anthropic", "deepseek", "gemini", "ollama"]
    assert {p.protocol for p in catalog.providers().values()} == {"openai", "anthropic"}


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_an_address_of_messages_with_or_without_its_version(settings, url):
    settings.ANTHROPIC_API_KEY, settings.ANTHROPIC_BASE_URL = "k" * 12, url
    assert catalog.providers()["anthropic"].base_url == "http://h:1"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "http://localhost:11434/v1"),
        ("localhost:99", "http://localhost:99/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:99", "http://127.0.0.1:99/v1"),
        ("https://box.example/", "https://box.example/v1"),
        ("http://box:1/ollama", "http://box:1/ollama/v1"),
    ],
)
def test_ollama_host(host, url):
    assert catalog.ollama_url(host) == url


def test_default_and_bare_names(settings):
    with pytest.raises(catalog.NoModel):
        catalog.default_config()
    settings.ANTHROPIC_API_KEY = "k" * 12
    assert catalog.default_config() == {"provider": "anthropic", "model": "claude-sonnet-5-5"}
    assert catalog.config("any-name") == {"provider": "anthropic", "model": "any-name"}
    assert catalog.config("anthropic/x/y") == {"provider": "anthropic", "model": "x/y"}


def test_settings_that_change_bodies_are_in_the_config_and_follow_the_provider(settings):
    settings.ANTHROPIC_API_KEY = settings.OPENAI_API_KEY = "k" * 12
    settings.SIDECHAT_JOIN_USER_MESSAGES = ["openai"]
    config = catalog.config("openai/m")
    assert config == {"provider": "openai", "model": "m", "joinUserMessages": True}
    switched = {**config, **catalog.config("anthropic/m"), "temperature": 1}
    assert catalog.current(switched) == {"provider": "anthropic", "model": "m", "temperature": 1}
    gone = {"provider": "gone", "model": "m", "joinUserMessages": True}
    assert catalog.current(gone) == gone


def test_protocol_is_read_off_the_config_alone():
    assert catalog.protocol_of({"provider": "anthropic", "model": "m"}) == "anthropic"
    assert catalog.protocol_of({"provider": "gone", "model": "m"}) == "openai"
    assert catalog.protocol_of({"provider": "gone", "model": "m", "protocol": "anthropic"}) == "anthropic"
