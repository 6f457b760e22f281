"""The sidebar's socket: rows as they change, to those who may see them."""

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from sidechat_web.accounts import tokens
from sidechat_web.delivery import hub
from sidechat_web.runtime import commands, live
from sidechat_web.runtime.views import session_json
from sidechat_web.storage.models import Session

rename = sync_to_async(commands.rename)


async def row(client, **fields):
    while True:
        frame = await client.until("row")
        if all(frame["session"][name] == value for name, value in fields.items()):
            return frame["session"]


async def test_rows_are_those_of_the_list(connect, producer, session):
    tree = await connect()
    await tree.until("hello")
    await rename(session, "New name")
    shown = await row(tree, title="New name")
    assert shown == await sync_to_async(lambda: session_json(Session.objects.get(pk=session.pk)))()
    await producer.start()
    assert (await row(tree, status="running"))["id"] == session.pk
    await producer.end()
    assert (await row(tree, status="idle"))["lastTurn"]["reason"] == {"kind": "completed"}


async def test_new_and_deleted_sessions(connect, owner):
    tree = await connect()
    await tree.until("hello")
    made = await sync_to_async(commands.create)(owner, model="custom/scripted")
    assert (await row(tree))["id"] == made.pk
    await sync_to_async(commands.delete)(made)
    assert await tree.until("gone") == {"t": "gone", "session": made.pk}


async def test_nothing_of_others(connect, session):
    eve = await sync_to_async(User.objects.create)(username="eve")
    theirs = await connect(token=await sync_to_async(tokens.issue)(eve, "eve"))
    mine = await connect()
    await theirs.until("hello")
    await mine.until("hello")
    await rename(session, "Mine")
    await row(mine, title="Mine")
    await sync_to_async(commands.delete)(session)
    await mine.until("gone")
    assert await theirs.nothing()


async def test_rows_that_no_bell_announced(connect, session, monkeypatch):
    monkeypatch.setattr(hub, "ROWS_SECONDS", 0.1)
    tree = await connect()
    await tree.until("hello")
    monkeypatch.setattr(live, "ring", lambda *_: None)
    await rename(session, "Renamed elsewhere")
    await row(tree, title="Renamed elsewhere")
