"""The people of the authorisation matrix, and a side on which everything can be tried."""

from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.db.models import Max

from sidechat_web.accounts import tokens
from sidechat_web.accounts.models import Invitation
from sidechat_web.api import waiting
from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, sharing
from sidechat_web.runtime.providers import stored
from sidechat_web.runtime.sidechat import merge_back, side
from sidechat_web.storage import log, reading
from sidechat_web.storage.ids import new_id, now_ms
from sidechat_web.storage.models import Approval, Session

INVITATION = 10**9  # the id of one that an admin made; no other row has it


@pytest.fixture(autouse=True)
def team(settings, monkeypatch, tmp_path):
    """Team mode, with a provider and an MCP server that do not answer, and without waiting for a runner."""
    settings.DATA_DIR = tmp_path
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"x": {"command": "/no/such/program"}}}')
    settings.SIDECHAT_LOCAL_MODE = False
    settings.ALLOWED_HOSTS = ["testserver", "localhost"]
    settings.SIDECHAT_OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.SIDECHAT_DEFAULT_MODEL = "custom/fake"
    monkeypatch.setattr(waiting, "WAIT_SECONDS", 0.01)


@dataclass(frozen=True)
class World:
    """`aside` is what is asked for: a side of `main`, with something of every kind on it."""

    main: Session
    aside: Session
    ids: dict[str, object]
    tokens: dict[str, str]  # actor → token; "" = none

    def user(self, name: str) -> User:
        return User.objects.get(username=name)


@pytest.fixture
def world(db) -> World:
    return make_world()


def make_world() -> World:
    names = ("owner", "reader", "writer", "side_writer", "stranger", "admin", "left")
    users = {name: User.objects.create_user(name, password="a long password") for name in names}
    User.objects.filter(username="admin").update(is_staff=True, is_superuser=True)
    main = commands.create(users["owner"], title="Main")
    add_turn(main, 1)
    aside = side.open_side(main, title="Aside")
    add_turn(aside, 2)
    sharing.share(main, "reader", write=False)
    sharing.share(main, "writer", write=True)
    sharing.share(aside, "side_writer", write=True)
    ids = _things_on(aside)
    issued = {name: tokens.issue(user, name) for name, user in users.items()}
    users["left"].is_active = False
    users["left"].save()
    issued |= {
        "anonymous": "",
        "unknown": "sc_unknown",
        "revoked": tokens.issue(users["owner"], "revoked"),
        "expired": tokens.issue(users["owner"], "expired", expires_at=now_ms() - 1),
        "read_token": tokens.issue(users["owner"], "read", scope="read"),
    }
    newest = users["owner"].api_tokens.filter(name="revoked").aggregate(pk=Max("pk"))["pk"]
    assert tokens.revoke(users["owner"], newest)
    stored.add("x", base_url="http://127.0.0.1:9/v1", default_model="m")
    Invitation.objects.create(pk=INVITATION, digest="x", made_by=users["admin"], expires_at=now_ms() + 10**6)
    for session in (main, aside):
        session.refresh_from_db()
    return World(main, aside, ids, issued)


def add_turn(session: Session, number: int) -> None:
    source = {"kind": "model", "provider": "custom", "model": "fake"}
    message = {"id": f"a{number}", "role": "assistant", "content": ev.text_blocks("Because."), "source": source}
    drafts = [
        ev.turn_start(number),
        ev.step_start(number, 1),
        ev.request_header({"config": {"provider": "custom", "model": "fake"}}, "change"),
        ev.user_message(f"u{number}", ev.text_blocks("Why?")),
        ev.assistant_message(number, 1, message, {"inputTokens": 1, "outputTokens": 1}),
        ev.step_end(number, 1),
        ev.turn_end(number, {"kind": "completed"}),
    ]
    log.append(session.pk, drafts)
    session.refresh_from_db()


def _things_on(aside: Session) -> dict[str, object]:
    """Ids of what the routes name, all on `aside`."""
    item = commands.say(aside, "Waits.")
    merge = merge_back.merge(aside)
    approval = Approval.objects.create(
        session=aside, turn=2, call_id="c", tool="write", arguments="{}", reason="asks", pk=new_id()
    )
    asked = next(event.seq for event in reading.events(aside, types=[ev.USER_MESSAGE]))
    return {
        "session_id": aside.pk,
        "item_id": item.pk,
        "merge_id": merge.pk,
        "approval_id": approval.pk,
        "seq": asked,
        "n": 1,
        "user": "side_writer",
        "place": "side",
        "name": "x",
    }
