"""Every route, call and socket × everybody who may come: the right answer, and one 404 for absent and forbidden."""

import json
from dataclasses import dataclass

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings
from django.db import transaction
from django.test import Client

from sidechat_web.accounts.session_store import SessionStore
from sidechat_web.api.urls import api
from sidechat_web.asgi import routes as application
from sidechat_web.delivery import hub
from sidechat_web.delivery.routing import sockets
from sidechat_web.pages import history
from sidechat_web.storage.ids import new_id

from .conftest import INVITATION, make_world
from .routes import ADMIN_PAGES, CALLS, PAGES, SOCKETS, routes

pytestmark = pytest.mark.django_db

# What a rule answers to those who are signed in; whoever is not named gets "absent".
RULES = {
    "open": {},
    "leave": dict.fromkeys(("owner", "writer", "side_writer", "reader", "stranger", "admin"), "sign in"),
    "signed_in": dict.fromkeys(("owner", "writer", "side_writer", "reader", "stranger", "admin"), "in"),
    "row": dict.fromkeys(("owner", "writer", "side_writer", "reader", "stranger", "admin"), "absent"),
    "read": dict.fromkeys(("owner", "writer", "side_writer", "reader"), "in"),
    "write": {**dict.fromkeys(("owner", "writer", "side_writer"), "in"), "reader": "refused"},
    "merge": {"owner": "in", "writer": "in", "side_writer": "refused", "reader": "refused"},
    "renew": {"owner": "in", "writer": "in", "reader": "in", "side_writer": "refused"},
    "own": {"owner": "in", **dict.fromkeys(("writer", "side_writer", "reader"), "refused")},
    "admin": {"admin": "in"},
    "administer": {"admin": "in"},
}
SIGNED_IN = ("owner", "writer", "side_writer", "reader", "stranger", "admin")
BODY = {
    "text": "x",
    "title": "x",
    "seq": 1,
    "decision": "deny",
    "user": "side_writer",
    "may": "read",
    "row": INVITATION,
    "days": 30,
    "scope": "read",
    "name": "x",
}


@dataclass(frozen=True)
class Call:
    """One way to call one address. `of` makes its path for a session."""

    name: str
    method: str
    path: str
    rule: str
    body: str = ""

    def of(self, ids):
        return self.path.format_map(ids)


def pages():
    paths = {route.name: route.path for route in routes()}
    table = {**PAGES, **{name: {"GET": "administer"} for name in paths if name.startswith(ADMIN_PAGES)}}
    return [Call(n, m, paths[n], rule) for n, methods in table.items() if n in paths for m, rule in methods.items()]


def calls():
    document = api.get_openapi_schema()
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = operation["operationId"]
            found.append(Call(name, method.upper(), path, CALLS.get(name, "missing"), _body(operation)))
    return found


def _body(operation):
    """A body that fits, from the schema's names."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return ""
    schema = content["schema"]
    reference = schema.get("$ref") or next(s["$ref"] for s in schema["anyOf"] if "$ref" in s)
    properties = api.get_openapi_schema()["components"]["schemas"][reference.rsplit("/", 1)[1]]["properties"]
    return json.dumps({name: BODY[name] for name in properties if name in BODY})


def ids_of(call, world):
    """The world's ids, but a path parameter that is not about the session gets something harmless."""
    return {**world.ids, **_nowhere(world)}


def _nowhere(world):
    """What the other addresses name: an invitation that is none, and a row of the admin pages."""
    row = world.user("owner").pk
    return {"token": "no-such-invitation", "object_id": row, "id": row, "app_label": "auth", "format": "markdown"}


def unknown(world):
    """The same parameters for a session and things that do not exist."""
    made_up = {name: new_id() for name in ("session_id", "item_id", "merge_id", "approval_id")}
    return {**world.ids, **_nowhere(world), **made_up}


def answer(response):
    if response.status_code == 302 and response["Location"].startswith("/accounts/login/"):
        return "sign in"
    return {401: "sign in", 403: "refused", 404: "absent", 405: "no such method"}.get(response.status_code, "in")


def once(client, call, path, **headers):
    """The response; whatever the call did is undone."""
    with transaction.atomic():
        response = send(client, call, path, **headers)
        transaction.set_rollback(True)
    return response


def send(client, call, path, **headers):
    data = {"data": call.body or BODY} if call.method == "POST" else {"data": call.body} if call.body else {}
    more = {"content_type": "application/json"} if call.body else {}
    return getattr(client, call.method.lower())(path, **data, **more, headers=headers)


def token_client(world, actor):
    token = world.tokens[actor]
    return Client(headers={"Authorization": f"Bearer {token}"} if token else {})


def browser(world, actor, **options):
    client = Client(**options)
    if actor == "expired_session":
        client.force_login(world.user("owner"))
        store = SessionStore(client.cookies[django_settings.SESSION_COOKIE_NAME].value)
        store.set_expiry(-1)
        store.save()
    elif actor == "left":
        client.force_login(world.user("left"))
    elif actor != "anonymous":
        client.force_login(world.user(actor))
    return client


# --- the tables are whole ---


def test_every_route_has_a_rule():
    api_paths = set(api.get_openapi_schema()["paths"])
    named = {route.name for route in routes() if route.path not in api_paths}
    assert {name for name in named if not name.startswith(ADMIN_PAGES)} == set(PAGES)


def test_every_call_has_a_rule():
    assert {call.name for call in calls()} == set(CALLS)


def test_every_call_is_in_the_document():
    """A call that is hidden from the document would be hidden from this matrix."""
    api_routes = {r.path for r in routes() if r.name.startswith("api:") and r.name not in PAGES}
    assert api_routes == set(api.get_openapi_schema()["paths"])


def test_every_socket_has_a_rule():
    table = {str(route.pattern).strip("^$") for route in sockets(history.info).routes}
    assert table == set(SOCKETS)


# --- pages ---


@pytest.mark.parametrize("call", pages(), ids=lambda c: f"{c.method} {c.name}")
def test_page(world, call):
    path, nowhere = call.of(ids_of(call, world)), call.of(unknown(world))
    for actor in ("anonymous", "expired_session", "left"):
        got = answer(once(browser(world, actor), call, path))
        assert (got == "sign in") is (call.rule != "open"), (actor, got)
    for actor in SIGNED_IN:
        client = browser(world, actor)
        response = once(client, call, path)
        if call.rule == "open":
            assert answer(response) in ("in", "absent"), actor
            continue
        expected = RULES[call.rule].get(actor, "absent")
        if call.rule == "administer" and actor == "admin":
            assert response.status_code in (200, 302, 403, 405), response.status_code  # 403: rows that are only read
            continue
        assert answer(response) == expected, (actor, response.status_code)
        if expected == "absent" and path != nowhere:
            absent = once(client, call, nowhere)
            assert (response.status_code, response.content) == (absent.status_code, absent.content), actor


@pytest.mark.parametrize("call", pages(), ids=lambda c: f"{c.method} {c.name}")
def test_page_asked_by_another_origin(world, call):
    """A form or a script of a page elsewhere, with the owner's cookie."""
    path = call.of(ids_of(call, world))
    for site in ("cross-site", "same-site"):
        fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        assert once(browser(world, "owner"), call, path, **fetched).status_code == 403
        framed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
        assert once(browser(world, "owner"), call, path, **framed).status_code == 403
    if call.method == "POST":
        assert once(browser(world, "owner", enforce_csrf_checks=True), call, path).status_code == 403


@pytest.mark.parametrize("name", sorted(name for name in PAGES if not name.startswith("api:")))
def test_page_takes_no_other_method(world, name):
    path = next(route.path for route in routes() if route.name == name).format_map(ids_of(None, world))
    client = browser(world, "admin" if "admin" in PAGES[name].values() else "owner")
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - set(PAGES[name]):
        response = getattr(client, method.lower())(path)
        assert response.status_code in (404, 405), (method, response.status_code)


# --- calls ---


WAITING = ("draft_note", "merge_side")  # async views, which use the database from threads of their own


@pytest.mark.parametrize("call", [c for c in calls() if c.name not in WAITING], ids=lambda c: f"{c.method} {c.name}")
def test_call(world, call):
    check_call(world, call, once)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("call", [c for c in calls() if c.name in WAITING], ids=lambda c: f"{c.method} {c.name}")
def test_call_that_waits(call):
    check_call(make_world(), call, send)


def check_call(world, call, once):
    path, nowhere = call.of(ids_of(call, world)), call.of(unknown(world))
    for actor in ("anonymous", "unknown", "revoked", "expired", "left"):
        assert answer(once(token_client(world, actor), call, path)) == "sign in", actor
    assert answer(once(browser(world, "owner"), call, path)) == "sign in", "a cookie alone"
    for actor in SIGNED_IN:
        client = token_client(world, actor)
        response = once(client, call, path)
        expected = RULES[call.rule].get(actor, "absent")
        assert answer(response) == expected, (actor, response.status_code, response.content)
        if expected == "absent":
            absent = once(client, call, nowhere)
            assert (response.status_code, response.content) == (absent.status_code, absent.content), actor


@pytest.mark.parametrize("call", calls(), ids=lambda c: f"{c.method} {c.name}")
def test_call_with_a_token_for_reading(world, call):
    response = once(token_client(world, "read_token"), call, call.of(ids_of(call, world)))
    if call.method != "GET":
        assert response.json()["error"]["code"] == "token_read_only"
    else:
        assert answer(response) == "in"


# --- lists ---


def test_lists_show_what_may_be_read_and_nothing_else(world):
    seen = {}
    for actor in SIGNED_IN:
        listed = token_client(world, actor).get("/api/sessions").json()["sessions"]
        seen[actor] = {session["id"] for session in listed}
        page = browser(world, actor).get("/sessions/").content.decode()
        assert {pk for pk in (world.main.pk, world.aside.pk) if f"row-{pk}" in page} == seen[actor], actor
    both = {world.main.pk, world.aside.pk}
    assert seen == {
        "owner": both,
        "writer": both,
        "reader": both,
        "side_writer": {world.aside.pk},
        "stranger": set(),
        "admin": set(),
    }


# --- sockets ---


async def _hello(path, headers):
    """The first frame's kind, or what happened instead."""
    pairs = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
    communicator = WebsocketCommunicator(application, path, headers=pairs)
    accepted, _ = await communicator.connect(10)
    if not accepted:
        return "no socket"
    frame = json.loads(await communicator.receive_from(10))
    await communicator.disconnect()
    return "in" if frame["t"] == "hello" else frame["code"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("route", sorted(SOCKETS))
async def test_socket(route):
    world = await sync_to_async(make_world)()
    rule = SOCKETS[route]
    path = {"read": f"/ws/sessions/{world.aside.pk}/?as=json", "signed_in": "/ws/tree/?as=json"}.get(rule, "/ws/x/")
    for actor, token in world.tokens.items():
        got = await _hello(path, {"authorization": f"Bearer {token}"} if token else {})
        who = "owner" if actor == "read_token" else actor
        allowed = rule != "nowhere" and RULES[rule].get(who, "absent") == "in"
        assert got == ("no socket" if rule == "nowhere" else "in" if allowed else "forbidden"), actor
    for actor in ("anonymous", "expired_session", "left", *SIGNED_IN):
        client = await sync_to_async(browser)(world, actor)
        cookie = client.cookies.get(django_settings.SESSION_COOKIE_NAME)
        ours = {"origin": "http://localhost", **({"cookie": f"{cookie.key}={cookie.value}"} if cookie else {})}
        got = await _hello(path, ours)
        allowed = rule != "nowhere" and RULES[rule].get(actor, "absent") == "in"
        assert got == ("no socket" if rule == "nowhere" else "in" if allowed else "forbidden"), actor
        assert await _hello(path, {**ours, "origin": "http://evil.example"}) == "no socket"
    await hub.stop()
