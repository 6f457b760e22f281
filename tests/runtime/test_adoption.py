"""A log that another program left in the middle of a turn: repaired in memory, adopted by the first message."""

import io

from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.formats.importing import import_logs
from sidechat_web.runtime import commands, repair
from sidechat_web.runtime.sidechat import merge_back, side
from sidechat_web.storage import reading
from tests.conftest import idle

HEADER = '{"type":"session","version":0,"id":"left-open","createdAt":5,"delegationDepth":0}'
LINES = [
    '{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}',
    '{"type":"step/start","seq":1,"time":5,"data":{"turn":1,"step":1}}',
    '{"type":"user/message","seq":2,"time":5,"data":{"id":"u","role":"user","content":[{"type":"text","text":"hi"}],'
    '"source":{"kind":"user"}},"surfaceOp":"append"}',
]


@sync_to_async
def imported(owner):
    [session] = import_logs(owner, [("left-open.jsonl", io.BytesIO("\n".join([HEADER, *LINES, ""]).encode()))])
    return session


@sync_to_async
def types(session):
    session.refresh_from_db()
    return [e.type for e in reading.events(session)]


async def test_is_idle_and_stays_as_it_was(running, owner):
    session = await imported(owner)
    assert session.status == "idle"
    assert not await sync_to_async(repair.repair_abandoned)(set())
    assert await types(session) == ["turn/start", "step/start", "user/message"]


async def test_first_message_appends_the_repair_once(running, owner):
    session = await imported(owner)
    for text in ("and on", "again"):
        await sync_to_async(commands.say)(session, text)
        await idle(session)
    found = await types(session)
    assert found[3:6] == ["step/end", "turn/end", "turn/start"]
    assert found.count(ev.TURN_END) == 3


async def test_note_merged_into_it_appends_the_repair_first(running, owner):
    session = await imported(owner)
    child = await sync_to_async(side.open_side)(session, text="why?")
    await idle(child)
    assert child.seed_length == 0
    done = await sync_to_async(merge_back.merge)(child, text="Note.")
    assert done.public_state == "delivered"
    assert (await types(session))[3:] == ["step/end", "turn/end", "context/message"]
