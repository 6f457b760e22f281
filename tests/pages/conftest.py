"""A signed-in owner, a stranger, and sessions whose logs are written event by event."""

import json

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sidechat_web.core import events as ev
from sidechat_web.core.events import Draft
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import side
from sidechat_web.storage import log

MODEL = {"kind": "model", "provider": "custom", "model": "scripted"}
USAGE = {"inputTokens": 400, "cacheReadTokens": 9600, "outputTokens": 200}


@pytest.fixture(autouse=True)
def _provider(settings):
    """A configured provider that no test of the pages ever asks."""
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.SIDECHAT_DEFAULT_MODEL = "custom/scripted"
    settings.SIDECHAT_LOCAL_MODE = False


@pytest.fixture
def owner(db):
    return User.objects.create(username="ann")


@pytest.fixture
def client(owner):
    client = Client()
    client.force_login(owner)
    return client


@pytest.fixture
def stranger(db):
    client = Client()
    client.force_login(User.objects.create(username="bob"))
    return client


@pytest.fixture
def htmx(owner):
    """A client whose requests are htmx's."""
    client = Client(headers={"HX-Request": "true"})
    client.force_login(owner)
    return client


@pytest.fixture
def session(owner):
    """A main session with two ended turns."""
    made = commands.create(owner, title="Port the reader")
    write(made, said(1, "What is a refusal?", "It names **file** and line."), said(2, "And then?", "Then it stops."))
    return made


@pytest.fixture
def aside(session):
    """A side of `session` with one answer of its own."""
    made = side.open_side(session, title="why cut there?")
    write(made, said(3, "Why cut there?", "Because pairs stay whole."))
    return made


def write(session, *parts):
    for drafts in parts:
        log.append(session.pk, drafts)
    session.refresh_from_db()
    return session


def said(turn, text, answer, reason=None, **answered):
    """A whole turn of talk."""
    return [*asked(turn, text), answering(turn, 1, answer, **answered), *ended(turn, reason)]


def asked(turn, text):
    message = ev.user_message(f"m{turn}", ev.text_blocks(text))
    return [ev.turn_start(turn), ev.step_start(turn, 1), message]


def answering(turn, step, *blocks, usage=USAGE, interrupted=False):
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks if b is not None]
    message = {"id": f"a{turn}-{step}", "role": "assistant", "content": content, "source": MODEL}
    return ev.assistant_message(turn, step, message, usage, interrupted)


def ended(turn, reason=None):
    return [ev.step_end(turn, 1), ev.turn_end(turn, reason or {"kind": "completed"})]


def call(call_id, name, **arguments):
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": json.dumps(arguments)}


def called(turn, call_id, name, **arguments):
    data = {"turn": turn, "step": 1, "callId": call_id, "name": name, "arguments": json.dumps(arguments)}
    return Draft(ev.TOOL_CALL, data)
