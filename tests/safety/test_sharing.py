"""What a share covers, who owns what comes of it, and that its end is felt at once."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.test import Client

from sidechat_web.asgi import routes
from sidechat_web.core.errors import SidechatError
from sidechat_web.delivery import hub
from sidechat_web.runtime import commands, sharing
from sidechat_web.runtime.sidechat import merge_back, side
from sidechat_web.storage import access
from sidechat_web.storage.models import Session, Share

from .conftest import add_turn, make_world

pytestmark = pytest.mark.django_db


def sees(world, name, session):
    return access.visible(world.user(name)).filter(pk=session.pk).exists()


def test_share_covers_sides_that_are_opened_later_and_sides_of_sides(world):
    later = side.open_side(world.aside, title="Deeper")
    assert sees(world, "reader", later)
    assert access.session_for(world.user("writer"), later.pk, write=True)
    assert not sees(world, "stranger", later)


def test_share_does_not_cover_forks(world):
    fork = commands.fork(world.main, owner=world.user("writer"))
    assert fork.owner == world.user("writer")
    assert not sees(world, "owner", fork)
    assert not sees(world, "reader", fork)


def test_whoever_opens_a_side_owns_it_and_everybody_of_its_parent_sees_it(world):
    asked = side.open_side(world.main, owner=world.user("reader"), title="Mine")
    assert asked.owner == world.user("reader")
    assert access.session_for(world.user("reader"), asked.pk, write=True)
    assert access.session_for(world.user("owner"), asked.pk, write=True)
    assert access.session_for(world.user("writer"), asked.pk, write=True)
    with pytest.raises(access.Forbidden):
        access.own_session_for(world.user("owner"), asked.pk)


def test_reader_cannot_merge_their_own_side(world):
    asked = side.open_side(world.main, owner=world.user("reader"))
    with pytest.raises(access.Forbidden) as refusal:
        access.side_to_merge(world.user("reader"), asked.pk)
    assert refusal.value.code == "parent_forbidden"


def test_end_of_a_share_leaves_a_user_the_sides_that_they_opened(world):
    asked = side.open_side(world.main, owner=world.user("writer"))
    sharing.unshare(world.main, "writer")
    assert sees(world, "writer", asked)
    assert not sees(world, "writer", world.main)
    assert not sees(world, "writer", world.aside)
    shown = access.session_for(world.user("writer"), asked.pk)
    assert shown.parent.hidden
    with pytest.raises(access.Forbidden):
        access.side_to_merge(world.user("writer"), asked.pk)


def test_share_is_changed_ended_and_given_again(world):
    sharing.share(world.main, "reader", write=True)
    assert access.session_for(world.user("reader"), world.main.pk, write=True)
    assert sharing.unshare(world.main, "reader")
    assert not sharing.unshare(world.main, "reader")
    assert not sees(world, "reader", world.main)
    sharing.share(world.main, "reader", write=False)
    assert Share.objects.filter(session=world.main).count() == 2
    with pytest.raises(access.Forbidden):
        access.session_for(world.user("reader"), world.main.pk, write=True)


@pytest.mark.parametrize("name", ["nobody", "owner", "left", "READER", ""])
def test_share_with_nobody(world, name):
    with pytest.raises(SidechatError) as refusal:
        sharing.share(world.main, name, write=False)
    assert refusal.value.code == "no_user"


def test_right_of_the_parent_s_owner_cannot_be_ended(world):
    asked = side.open_side(world.main, owner=world.user("writer"))
    assert list(sharing.shares_of(asked)) == []
    assert not sharing.unshare(asked, "owner")
    with pytest.raises(SidechatError):
        sharing.share(asked, "owner", write=False)
    assert access.session_for(world.user("owner"), asked.pk, write=True)


def test_deleting_keeps_the_sides_of_others(world):
    asked = side.open_side(world.main, owner=world.user("writer"))
    done = commands.delete(world.main, "delete")
    assert set(done["deleted"]) == {world.main.pk, world.aside.pk}
    assert done["kept"] == [asked.pk]
    assert sees(world, "writer", asked)


def test_side_alone_is_shown_without_its_parent(world):
    client = Client()
    client.force_login(world.user("side_writer"))
    beside = f"/s/{world.main.pk}/?side={world.aside.pk}"
    page = client.get(beside, follow=True)
    assert page.redirect_chain == [(f"/s/{world.aside.pk}/", 302)]
    assert "Aside" in page.content.decode()
    assert "Main" not in page.content.decode().replace("Main is", "")


def test_reader_is_told_why_there_is_no_composer(world):
    client = Client()
    client.force_login(world.user("reader"))
    page = client.get(f"/s/{world.main.pk}/").content.decode()
    assert "shared with you for reading" in page
    assert f'action="/s/{world.main.pk}/send"' not in page


def test_reading_by_another_leaves_it_unread_for_the_owner(world):
    commands.set_flags(world.main, unread=True)
    client = Client()
    client.force_login(world.user("reader"))
    client.get(f"/s/{world.main.pk}/")
    assert Session.objects.get(pk=world.main.pk).unread


def test_note_of_another_s_side_names_it_on_the_card(world):
    asked = side.open_side(world.main, owner=world.user("writer"), title="Theirs", text="Is it safe?")
    commands.remove_queued(asked, asked.queue.get().pk)
    add_turn(asked, 2)
    merge_back.merge(asked, text="It is safe.")
    client = Client()
    client.force_login(world.user("owner"))
    page = client.get(f"/s/{world.main.pk}/").content.decode()
    assert f"/s/{world.main.pk}/?side={asked.pk}" in page


# --- sockets ---


async def opened(path, token):
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
    communicator = WebsocketCommunicator(routes, path, headers=headers)
    accepted, _ = await communicator.connect(10)
    assert accepted
    return communicator


async def until(communicator, kind):
    async with asyncio.timeout(10):
        while (frame := json.loads(await communicator.receive_from(10)))["t"] != kind:
            pass
    return frame


@pytest.mark.django_db(transaction=True)
async def test_end_of_a_share_closes_the_sockets_of_the_session_and_of_its_sides():
    world = await sync_to_async(make_world)()
    main = await opened(f"/ws/sessions/{world.main.pk}/?as=json", world.tokens["reader"])
    aside = await opened(f"/ws/sessions/{world.aside.pk}/?as=json", world.tokens["reader"])
    tree = await opened("/ws/tree/?as=json", world.tokens["reader"])
    other = await opened(f"/ws/sessions/{world.main.pk}/?as=json", world.tokens["writer"])
    for one in (main, aside, tree, other):
        await until(one, "hello")
    await sync_to_async(sharing.unshare)(world.main, "reader")
    for one in (main, aside):
        assert (await until(one, "bye"))["code"] == "forbidden"
    gone = {(await until(tree, "gone"))["session"], (await until(tree, "gone"))["session"]}
    assert gone == {world.main.pk, world.aside.pk}
    await sync_to_async(commands.rename)(world.main, "Renamed")
    while (event := (await until(other, "event"))["event"])["type"] != "session/title" or event["seq"] < 3:
        pass
    for one in (main, aside, tree, other):
        await one.disconnect()
    await hub.stop()


@pytest.mark.django_db(transaction=True)
async def test_new_share_appears_in_the_tree():
    world = await sync_to_async(make_world)()
    tree = await opened("/ws/tree/?as=json", world.tokens["stranger"])
    await until(tree, "hello")
    await sync_to_async(sharing.share)(world.main, "stranger", write=False)
    assert (await until(tree, "row"))["session"]["id"] == world.main.pk
    await tree.disconnect()
    await hub.stop()
