"""The model of a session that names none."""

import pytest

from sidechat_web.runtime.providers import catalog


@pytest.fixture
def unnamed(db, provider, settings):
    settings.SIDECHAT_DEFAULT_MODEL = ""


def test_first_that_the_server_lists_where_none_is_named(unnamed):
    assert catalog.default_config() == {"provider": "custom", "model": "scripted"}


def test_without_waiting_it_is_not_known_of_a_server_that_does_not_answer(unnamed, settings):
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.SIDECHAT_LOCAL_MODEL = False
    with pytest.raises(catalog.NoModel):
        catalog.default_config(wait=False)
