"""The API against a running agent: an asynchronous caller, and what tests ask it often."""

import json

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.test import AsyncClient

from sidechat_web.accounts import tokens
from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat import side as sides

create = sync_to_async(commands.create)
say = sync_to_async(commands.say)
open_side = sync_to_async(sides.open_side)


class AsyncCaller:
    def __init__(self, token):
        self.headers = {"Authorization": f"Bearer {token}"}

    async def call(self, method, path, body=None, key=None):
        headers = {**self.headers, **({"Idempotency-Key": key} if key else {})}
        data = b"" if body is None else json.dumps(body).encode()
        async with ThreadSensitiveContext():  # as Django's ASGI handler does for each request
            response = await AsyncClient().generic(method, f"/api{path}", data, "application/json", headers=headers)
            await sync_to_async(connections.close_all)()  # which the test client leaves open
        return response.status_code, response.json()


async def caller_for(user):
    return AsyncCaller(await sync_to_async(tokens.issue)(user, "test"))


async def refusal(ann, method, path, body=None, key=None):
    """`(status, code)` of a refusal."""
    status, answer = await ann.call(method, path, body, key)
    return status, answer["error"]["code"]


async def notes_in(ann, session):
    """The notes that the session's model sees."""
    _, body = await ann.call("GET", f"/sessions/{session.pk}/messages")
    return [m for m in body["messages"] if m["source"].get("form") == "handback"]


async def merges_of(ann, session):
    status, found = await ann.call("GET", f"/sessions/{session.pk}/merges")
    assert status == 200
    return found
