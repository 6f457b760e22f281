"""The models that providers list: side by side, kept for a while, a failure of one beside the others."""

import socket

import pytest

from sidechat_web.runtime.providers import listing

from .conftest import KEY

pytestmark = pytest.mark.usefixtures("nothing_listed")


@pytest.fixture
def both(db, provider, settings):
    settings.SIDECHAT_LOCAL_MODEL = False
    settings.ANTHROPIC_API_KEY = KEY
    settings.ANTHROPIC_BASE_URL = provider.base_url
    return provider


def ids(found):
    return [model["id"] for model in found]


def test_both_wires_are_listed_the_default_first(both, settings):
    settings.SIDECHAT_DEFAULT_MODEL = "anthropic/scripted-2"
    found = listing.list_models()
    assert ids(found) == ["anthropic/scripted-2", "custom/scripted", "custom/scripted-2", "anthropic/scripted"]
    assert found[1] == {"id": "custom/scripted", "provider": "custom", "name": "scripted"}


def test_what_is_no_chat_model_is_left_out_and_windows_are_learnt(both, monkeypatch):
    both.models = [
        {"id": "text-embedding-3"},
        {"id": "whisper-1"},
        {"id": "models/gemini-x", "context_length": 5000},
        {"id": "vllm", "max_model_len": 4096, "display_name": "Mine"},
        {"no": "id"},
        {"id": 5},
    ]
    found = {model["id"]: model for model in listing.listing(fresh=True).models if model["provider"] == "custom"}
    assert sorted(found) == ["custom/gemini-x", "custom/scripted", "custom/vllm"]
    assert found["custom/vllm"] == {"id": "custom/vllm", "provider": "custom", "name": "Mine", "window": 4096}
    assert found["custom/gemini-x"]["window"] == 5000


def test_one_failure_is_reported_beside_what_the_others_list(both, settings):
    settings.ANTHROPIC_BASE_URL = "http://127.0.0.1:9"
    found = listing.listing()
    assert ids(found.models) == ["custom/scripted", "custom/scripted-2", "anthropic/claude-sonnet-5-5"]
    assert list(found.failures) == ["anthropic"] and "cannot reach Anthropic" in found.failures["anthropic"]


def test_a_server_that_never_answers_costs_a_bounded_wait(both, settings, monkeypatch):
    monkeypatch.setattr(listing, "ASKING_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        settings.ANTHROPIC_BASE_URL = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        found = listing.listing()
    assert "custom/scripted" in ids(found.models) and "anthropic" in found.failures


def test_nonsense_is_no_list(both):
    both.models = "nonsense"
    assert set(listing.listing().failures) == {"custom", "anthropic"}


def test_answers_are_kept_and_asked_for_again_on_demand(both):
    listing.listing()
    both.models = [{"id": "new"}]
    assert "custom/new" not in ids(listing.listing().models)
    assert "custom/new" in ids(listing.listing(fresh=True).models)


def test_without_waiting_there_is_what_is_known(both):
    known = listing.listing(wait=False)
    assert ids(known.models)[0] == "custom/scripted"
    listing.listing()
    assert "anthropic/scripted" in ids(listing.listing(wait=False).models)


def test_keys_are_not_in_failures(both, settings):
    settings.ANTHROPIC_BASE_URL = f"http://user:{KEY}@127.0.0.1:9"
    assert KEY not in listing.listing().failures["anthropic"]
