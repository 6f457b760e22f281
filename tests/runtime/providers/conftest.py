"""Both wires, against the one scripted provider."""

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.formats import checking
from sidechat_web.runtime.providers import listing
from sidechat_web.storage.models import Session
from tests.scripted_provider import ScriptedProvider

KEY = "secret-key-of-the-tests-0123456789"


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest, provider: ScriptedProvider, settings) -> str:
    """The name of the wire that sessions use by default."""
    settings.SIDECHAT_OPENAI_API_KEY = KEY
    if request.param == "anthropic":
        settings.SIDECHAT_OPENAI_BASE_URL = ""
        settings.ANTHROPIC_API_KEY = KEY
        settings.ANTHROPIC_BASE_URL = provider.base_url
        settings.SIDECHAT_DEFAULT_MODEL = "anthropic/scripted"
    return request.param


@pytest.fixture
def nothing_listed() -> None:
    """No answer of a provider is kept from before."""
    listing._answers.clear()


@sync_to_async
def sound(session: Session) -> None:
    """The session's log breaks no rule of the record."""
    assert [str(fault) for fault in checking.faults(session)] == []
