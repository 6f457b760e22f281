"""Who gets a socket: a token or a session cookie, our own Host and Origin, and only what is theirs."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as Browser

from sidechat_web.accounts import tokens
from sidechat_web.runtime import commands, live

BYE = {"t": "bye", "code": "forbidden"}


@sync_to_async
def cookie_of(user: User) -> str:
    browser = Browser()
    browser.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"


@sync_to_async
def stranger_token() -> str:
    return tokens.issue(User.objects.create(username="eve"), "eve")


async def test_token_in_header_or_query(connect, session, token):
    assert (await (await connect(session)).next())["t"] == "hello"
    assert (await (await connect(session, token="", in_query=token)).next())["t"] == "hello"


@pytest.mark.parametrize("origin", ["http://localhost", "http://localhost:80", "https://localhost"])
async def test_cookie_with_our_origin(connect, session, owner, origin):
    client = await connect(session, token="", headers={"cookie": await cookie_of(owner), "origin": origin})
    assert (await client.next())["t"] == "hello"


async def test_cookie_without_origin_is_nobody(connect, session, owner):
    client = await connect(session, token="", headers={"cookie": await cookie_of(owner)})
    assert await client.next() == BYE


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:8001", "file://", "http://["])
@pytest.mark.parametrize("with_token", [True, False])
async def test_foreign_origin_gets_no_socket(connect, session, owner, token, origin, with_token):
    given = {"cookie": await cookie_of(owner), "origin": origin}
    with pytest.raises(ConnectionRefusedError):
        await connect(session, token=token if with_token else "", headers=given)


async def test_foreign_host_gets_no_socket(connect, session):
    with pytest.raises(ConnectionRefusedError):
        await connect(session, headers={"host": "evil.example", "origin": "http://evil.example"})


async def test_other_addresses_get_no_socket(connect):
    with pytest.raises(ConnectionRefusedError):
        await connect("../../elsewhere")


@pytest.mark.parametrize("raw", ["", "wrong"])
async def test_unknown_caller(connect, session, raw):
    client = await connect(session, token=raw)
    assert await client.next() == BYE
    assert await client.closed() == 4404


async def test_absent_deleted_and_foreign_sessions_are_one_answer(connect, session, owner):
    gone = await sync_to_async(commands.create)(owner, model="custom/scripted")
    await sync_to_async(commands.delete)(gone)
    eve = await stranger_token()
    for asked, raw in (("0" * 26, None), ("no-such-id", None), (gone, None), (session, eve)):
        client = await connect(asked, **({} if raw is None else {"token": raw}))
        assert (await client.next(), await client.closed()) == (BYE, 4404)


async def test_revoked_token_closes_its_sockets_only(connect, session, owner):
    other = await sync_to_async(tokens.issue)(owner, "other")
    lost, kept = await connect(session), await connect(session, token=other)
    await lost.until("merges")
    await kept.until("merges")
    await sync_to_async(lambda: tokens.revoke(owner, owner.api_tokens.get(name="test").pk))()
    live.ring("", "access")
    assert await lost.until("bye") == BYE
    await asyncio.sleep(0.05)
    assert await kept.nothing()


async def test_session_that_changes_hands_is_closed(connect, session):
    client, tree = await connect(session), await connect()
    await client.until("merges")
    await tree.until("hello")
    eve = await sync_to_async(User.objects.create)(username="eve")
    session.owner = eve
    await sync_to_async(session.save)(update_fields=["owner"])
    live.ring("", "access")
    assert await client.until("bye") == BYE
    assert await tree.nothing()
