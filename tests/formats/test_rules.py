"""The small logs beside this file, one for each rule of the format; `logs/index.json` says what each shows."""

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from sidechat_web.core.errors import LogRefused
from sidechat_web.core.events import TURN_END, joined, text_of
from sidechat_web.core.surface import Surface
from sidechat_web.formats.checking import faults
from sidechat_web.formats.dsh import DshLog
from sidechat_web.formats.importing import import_logs
from sidechat_web.storage.models import Event, Session

FOLDER = Path(__file__).parent / "logs"
INDEX = json.loads((FOLDER / "index.json").read_text())
REFUSED = {name: entry for name, entry in INDEX.items() if "code" in entry}
ACCEPTED = {name: entry for name, entry in INDEX.items() if "code" not in entry}


def over(entries):
    return pytest.mark.parametrize("name, entry", entries.items(), ids=list(entries))


def said(message):
    """The message's text, or that of its tool result."""
    return text_of(message) or "".join(joined(b.get("content")) for b in message["content"])


def test_every_log_is_listed():
    assert {path.name for path in FOLDER.iterdir()} - {"index.json"} == INDEX.keys()


@over(REFUSED)
def test_refused(name, entry):
    with (FOLDER / name).open("rb") as stream, pytest.raises(LogRefused) as refused:
        list(DshLog(stream, name).lines())
    assert refused.value.code == entry["code"]
    assert refused.value.line == entry.get("line", refused.value.line)
    assert name in str(refused.value)


@over(ACCEPTED)
def test_accepted(name, entry):
    with (FOLDER / name).open("rb") as stream:
        log = DshLog(stream, name)
        events = [event for line in log.lines() for event in line.events()]
    messages = Surface.of(events).messages()
    assert [said(message) for message in messages] == entry["texts"]
    assert [message["id"] for message in messages] == entry.get("ids", [m["id"] for m in messages])
    reasons = [event.data["reason"] for event in events if event.type == TURN_END]
    assert reasons == entry.get("reasons", reasons)
    assert len(events) == entry.get("events", len(events))
    assert (log.torn is not None) == entry.get("torn", False)
    assert log.torn is None or log.torn.recovered == entry.get("recovered", 0)


@pytest.mark.django_db
@over(REFUSED)
def test_a_refusal_stores_nothing(name, entry):
    owner = User.objects.create(username="ann")
    good = FOLDER / "ok-plain.jsonl"
    with good.open("rb") as first, (FOLDER / name).open("rb") as second, pytest.raises(LogRefused):
        import_logs(owner, [(good.name, first), (name, second)])
    assert not Session.objects.exists() and not Event.objects.exists()


@pytest.mark.django_db
@over(ACCEPTED)
def test_an_accepted_log_passes_the_check(name, entry):
    with (FOLDER / name).open("rb") as stream:
        [session] = import_logs(User.objects.create(username="ann"), [(name, stream)])
    assert list(faults(session)) == []
