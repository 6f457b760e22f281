"""Callers of the API: ann, bob who is a stranger to her sessions, and nobody."""

import json
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sidechat_web.accounts import tokens
from sidechat_web.core import events as ev
from sidechat_web.runtime import commands
from sidechat_web.storage import log
from tests.conftest import idle

from .agents import create, open_side, say


@dataclass
class Caller:
    """The API as one token sees it; every answer is checked for the one error shape."""

    token: str | None

    def call(self, method, path, body=None, *, raw=None, **headers):
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        content_type = "application/json"
        response = Client().generic(method, f"/api{path}", data, content_type=content_type, headers=headers)
        if response.status_code >= 400:
            error = response.json()["error"]
            assert isinstance(error["code"], str)
            assert isinstance(error["message"], str)
        return response

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body, **headers)

    def patch(self, path, body=None, **headers):
        return self.call("PATCH", path, body, **headers)

    def delete(self, path, **headers):
        return self.call("DELETE", path, **headers)


def refusal(response):
    """`(status, code)` of a refusal."""
    return response.status_code, response.json()["error"]["code"]


def turn(number, asked="Why?", answered="Because."):
    """The events of one whole turn."""
    answer = {
        "id": f"a{number}",
        "role": "assistant",
        "content": ev.text_blocks(answered),
        "source": {"kind": "model", "provider": "custom", "model": "fake"},
    }
    usage = {"inputTokens": 10, "outputTokens": 2}
    return [
        ev.turn_start(number),
        ev.step_start(number, 1),
        ev.user_message(f"u{number}", ev.text_blocks(asked)),
        ev.assistant_message(number, 1, answer, usage),
        ev.step_end(number, 1),
        ev.turn_end(number, {"kind": "completed"}),
    ]


@pytest.fixture(autouse=True)
def configured(settings):
    """A configured provider that nothing here calls: no turn runs without a runner."""
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.SIDECHAT_DEFAULT_MODEL = "custom/fake"
    settings.ALLOWED_HOSTS = ["testserver"]


@pytest.fixture
def owner(db):
    return User.objects.create(username="ann")


@pytest.fixture
def ann(owner):
    return Caller(tokens.issue(owner, "test"))


@pytest.fixture
def bob(db):
    return Caller(tokens.issue(User.objects.create(username="bob"), "test"))


@pytest.fixture
def nobody(db):
    return Caller(None)


@pytest.fixture
def session(owner):
    """Ann's session with two whole turns."""
    made = commands.create(owner, title="Cache design")
    log.append(made.pk, turn(1) + turn(2, "And then?", "Then nothing."))
    made.refresh_from_db()
    return made


@pytest.fixture
def open_turn(session):
    """The session while its third turn runs."""
    log.append(session.pk, turn(3)[:3])
    session.refresh_from_db()
    return session


@pytest.fixture
async def main(owner, running):
    """Ann's session after a turn of a running agent."""
    made = await create(owner, title="Main")
    await say(made, "what shall we build?")
    await idle(made)
    return made


@pytest.fixture
async def side(main):
    """A side of `main` that was asked."""
    made = await open_side(main, title="Doubts", text="is there a risk?")
    await idle(made)
    return made
