"""A database that refuses for a while, as a full disk does: a turn whose closing fails, too, is closed later."""

import asyncio

from django.db import connection

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands
from sidechat_web.runtime.db import in_db
from sidechat_web.storage import reading
from tests.conftest import idle

FULL = """
CREATE TRIGGER test_full BEFORE INSERT ON storage_event
BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END
"""


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


async def failed_to_close(caplog):
    async with asyncio.timeout(20):
        while not any(record.message.startswith("closing the turn of") for record in caplog.records):
            await asyncio.sleep(0.02)


async def test_turn_is_closed_when_there_is_room_again(owner, running, caplog):
    session = await in_db(commands.create, owner)
    await in_db(commands.say, session, f"[[every:20]][[say:{'word ' * 100}]]")
    async with asyncio.timeout(20):
        while (await in_db(session.refresh_from_db)) or session.open_turn is None:
            await asyncio.sleep(0.02)
    await in_db(execute, FULL)
    try:
        await failed_to_close(caplog)
    finally:
        await in_db(execute, "DROP TRIGGER test_full")
    await idle(session)
    ended = await in_db(lambda: [e.data["reason"]["kind"] for e in reading.events(session, types=[ev.TURN_END])])
    assert ended == ["interrupted"]
    await in_db(commands.say, session, "again [[say:here]]")
    await idle(session)
    ended = await in_db(lambda: [e.data["reason"]["kind"] for e in reading.events(session, types=[ev.TURN_END])])
    assert ended == ["interrupted", "completed"]
