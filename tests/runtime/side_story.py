"""What tests of the side session say often: a parent that has talked, a side that was asked, notes and their fate."""

import asyncio
import hashlib

from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import frame, merge_back, side
from sidechat_web.storage import reading
from sidechat_web.storage.models import Event
from tests.conftest import idle

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
stop = sync_to_async(commands.stop)
compact = sync_to_async(commands.compact)
delete = sync_to_async(commands.delete)
fork = sync_to_async(commands.fork)
open_side = sync_to_async(side.open_side)
renew = sync_to_async(side.renew)
promote = sync_to_async(side.promote)
knows = sync_to_async(side.knows)
merge = sync_to_async(merge_back.merge)
retract = sync_to_async(merge_back.retract)
merges_of = sync_to_async(merge_back.merges_of)
merged_into = sync_to_async(merge_back.merged_into)


@sync_to_async
def rows(session, **k):
    session.refresh_from_db()
    return list(reading.events(session, **k))


@sync_to_async
def own(session, **k):
    session.refresh_from_db()
    return list(reading.events(session, after=session.own_from - 1, **k))


@sync_to_async
def texts(session):
    """What a model would see now."""
    session.refresh_from_db()
    return [ev.text_of(m) for m in reading.surface(session).messages()]


@sync_to_async
def digest(session):
    session.refresh_from_db()
    return hashlib.sha256(b"\n".join(reading.lines(session))).hexdigest()


@sync_to_async
def count_rows():
    return Event.objects.count()


async def talked(owner, turns=1, **made):
    session = await create(owner, **made)
    for n in range(turns):
        await say(session, f"main question {n + 1}")
        await idle(session)
    return session


async def asked(owner, text="is it safe?", turns=1):
    """A parent and its side, which was asked `text` and has answered."""
    parent = await talked(owner, turns)
    return parent, await asked_in(parent, text)


async def asked_in(parent, text, **given):
    child = await open_side(parent, text=text, **given)
    await idle(child)
    return child


async def state_of(merge_row):
    [found] = [m for m in await merges_of(merge_row.parent) if m["id"] == merge_row.pk]
    return found


async def settled(merge_row, seconds=20):
    async with asyncio.timeout(seconds):
        while (found := await state_of(merge_row))["state"] in ("drafting", "pending"):
            await asyncio.sleep(0.02)
    return found


async def until_open(session):
    async with asyncio.timeout(10):
        while session.open_turn is None:
            await asyncio.sleep(0.01)
            await sync_to_async(session.refresh_from_db)()


def of_form(events, form):
    return [e for e in events if frame.form_of(e) == form]


def handbacks(events):
    return of_form(events, frame.HANDBACK)
