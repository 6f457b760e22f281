"""Importing on the page: all files or none, and what a session says of where it came from."""

import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from sidechat_web.formats.importing import import_logs
from sidechat_web.storage.models import Session

HEADER = '{"type":"session","version":0,"id":"%s","createdAt":1780000000000,"delegationDepth":0}\n'
TURN = '{"type":"turn/start","seq":0,"time":1780000000001,"data":{"turn":1}}\n'
END = '{"type":"turn/end","seq":1,"time":1780000000002,"data":{"turn":1,"reason":{"kind":"completed"}}}\n'


def log(name, lines=TURN):
    return upload(f"{name}.jsonl", HEADER % name + lines)


def upload(name, text):
    file = io.BytesIO(text.encode())
    file.name = name
    return file


def text(response):
    return response.content.decode()


async def whole(response):
    return b"".join([piece async for piece in response])


def send(client, *files, **headers):
    return client.post("/import/", {"files": list(files)}, headers=headers)


def test_files_become_sessions(client, owner):
    response = send(client, log("one"), log("two"))
    first = Session.objects.get(log_id="one")
    assert response["Location"] == f"/s/{first.pk}/"
    assert set(Session.objects.values_list("log_id", "owner")) >= {("one", owner.pk), ("two", owner.pk)}
    assert "2 sessions imported." in text(client.get(response["Location"]))
    assert "Imported from DeepSeek Harness." in text(client.get(response["Location"]))


def test_scripts_hear_where_to_go(client):
    response = send(client, log("one"), **{"HX-Request": "true"})
    assert response["HX-Redirect"] == f"/s/{Session.objects.get(log_id='one').pk}/"


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_refusal_names_file_line_and_reason_and_leaves_nothing(client, headers):
    before = Session.objects.count()
    response = send(client, log("good"), log("bad", "{}\n" + TURN + END), **headers)
    assert response.status_code == 422
    assert "bad.jsonl line 2: " in text(response) and "Nothing was imported." in text(response)
    assert Session.objects.count() == before


def test_no_file_is_refused(client):
    response = client.post("/import/")
    assert response.status_code == 422 and "Choose at least one file." in text(response)


def test_what_was_not_kept_is_said(client, owner):
    said = json.dumps([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
    [session] = import_logs(owner, [("said.json", io.BytesIO(said.encode()))])
    page = text(client.get(f"/s/{session.pk}/"))
    assert "Imported from a list of messages. Not kept: when it was said." in page


def test_refused_mirror_says_so(client, owner):
    [session] = import_logs(owner, [("m.jsonl", log("m"))], read_only=True)
    session.settings["mirror"] = {
        "path": "m.jsonl",
        "refused": {"code": "log_conflict", "message": "m.jsonl line 3: no"},
    }
    session.save()
    page = text(client.get(f"/s/{session.pk}/"))
    assert "Mirrors a session of DeepSeek Harness." in page and "m.jsonl line 3: no" in page


def test_imports_are_the_callers_own(client):
    stranger = User.objects.create_user("stranger")
    send(client, log("mine"))
    session = Session.objects.get(log_id="mine")
    client.force_login(stranger)
    assert client.get(f"/s/{session.pk}/").status_code == 404


@pytest.mark.parametrize(("kind", "suffix"), [("dsh", "jsonl"), ("markdown", "md"), ("openai", "json")])
def test_session_leaves_as_a_file(client, kind, suffix):
    send(client, log("out"))
    session = Session.objects.get(log_id="out")
    assert f'href="/s/{session.pk}/export/{kind}"' in text(client.get(f"/s/{session.pk}/settings"))
    response = client.get(f"/s/{session.pk}/export/{kind}")
    assert response["Content-Disposition"].endswith(f'{session.pk}.{suffix}"')
    if kind == "dsh":
        assert async_to_sync(whole)(response).decode() == HEADER % "out" + TURN
