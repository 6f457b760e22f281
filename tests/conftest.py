"""Shared fixtures: an owner, the scripted provider, and a runner on the test's own event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from sidechat_web.runtime import runner
from sidechat_web.storage.models import Session

from .scripted_provider import ScriptedProvider


@pytest.fixture(autouse=True)
def _erasable(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tombstone what a test with real transactions leaves, so that its tables can be emptied."""
    marker = request.node.get_closest_marker("django_db")
    real = "transactional_db" in request.fixturenames or bool(marker and marker.kwargs.get("transaction"))
    if real:
        request.getfixturevalue("_django_db_helper")
    yield
    if real:
        Session.objects.update(deleted_at=1)


@pytest.fixture(scope="session")
def provider_server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as server:
        yield server


@pytest.fixture
def provider(provider_server: ScriptedProvider, settings) -> ScriptedProvider:
    """The scripted provider, configured as `custom` and as the default."""
    provider_server.forget()
    settings.SIDECHAT_OPENAI_BASE_URL = provider_server.base_url
    settings.SIDECHAT_OPENAI_API_KEY = "test-key-0123456789"
    settings.SIDECHAT_DEFAULT_MODEL = "custom/scripted"
    return provider_server


@pytest.fixture
def owner(transactional_db) -> User:
    return User.objects.create(username="ann")


@pytest.fixture
async def running(transactional_db, provider) -> AsyncIterator[None]:
    """A runner in this process."""
    await runner.start()
    yield
    await runner.stop()


async def idle(*sessions: Session, seconds: float = 20) -> None:
    """Wait until no turn of these sessions is open and nothing waits for them; refreshes the rows."""
    async with asyncio.timeout(seconds):
        while not await sync_to_async(_is_idle)(sessions):
            await asyncio.sleep(0.02)


def _is_idle(sessions: tuple[Session, ...]) -> bool:
    for session in sessions:
        session.refresh_from_db()
    return all(
        s.open_turn is None
        and not s.queue.filter(seq=None).exists()
        and not s.injections.filter(state="pending").exists()
        for s in sessions
    )
