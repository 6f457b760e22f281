"""Every log of the corpus: the same verdict, the same projections, and the same bytes out as in."""

import copy
import hashlib
import io
import json

import pytest
import zstandard
from django.contrib.auth.models import User

from sidechat_web.core import boundary, codec, repair
from sidechat_web.core.errors import LogRefused
from sidechat_web.core.events import ASSISTANT_CHUNK
from sidechat_web.core.surface import Surface
from sidechat_web.formats.checking import faults
from sidechat_web.formats.dsh import DshLog
from sidechat_web.formats.exporting import export_dsh
from sidechat_web.formats.importing import import_logs
from sidechat_web.storage import reading
from tests import corpus

CODES = {
    "SessionFormatUnsupportedError": "log_unsupported",
    "SessionPersistenceCorruptionError": "log_corrupt",
    "Error": "log_unreadable",
}
FILES = [(case, path) for case in corpus.ALL for path in case.files]


def over(found):
    ids = [f"{case.name}{path.suffix}" for case, path in found]
    return pytest.mark.parametrize("case, path", found, ids=ids)


def read_here_only(case):
    """The original refuses the log only for an old `context/message`, which is read here."""
    error = case.expected["error"] or {}
    return 'event type "context/message"' in error.get("message", "")


def load(path):
    log = DshLog(io.BytesIO(path.read_bytes()), path.name)
    events = [event for line in log.lines() for event in line.events()]
    return log, events


def plain(path):
    """The file's plain text."""
    if path.suffix != ".zstd":
        return path.read_bytes()
    data, out = path.read_bytes(), b""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        out += frame.decompress(data)
        data = frame.unused_data
    return out


def torn_tail(case, path):
    files = [r for r in case.expected.get("representations") or [] if r["file"].endswith("/" + path.name)]
    return files[0]["tornTail"] if files else case.expected["tornTail"]


def neutral(message):
    """The message with the text of a repair's tool result left out: that wording is each program's own."""
    if not message["id"].startswith("interrupted-tool-result-"):
        return message
    message = copy.deepcopy(message)
    message["content"][0]["content"] = []
    return message


ACCEPTED = [(case, path) for case, path in FILES if case.expected["accepted"]]


@over(FILES)
def test_verdict(case, path):
    if case.expected["accepted"] or read_here_only(case):
        load(path)
        return
    with pytest.raises(LogRefused) as refused:
        load(path)
    assert refused.value.code == CODES[case.expected["error"]["class"]]
    assert refused.value.file == path.name and refused.value.reason


@over(ACCEPTED)
def test_projections(case, path):
    expected = case.expected
    log, events = load(path)
    assert len(events) == expected["storedEventCount"]
    assert json.loads(log.header.line()) == {"type": "session", **expected["header"]}
    torn = log.torn and {"truncateTo": log.torn.truncate_to, "recoveredEventCount": log.torn.recovered}
    assert torn == torn_tail(case, path)
    drafts = repair.closers(events)
    closers = [draft.at(len(events) + n, events[-1].time) for n, draft in enumerate(drafts)]
    assert [neutral_closer(codec.envelope(e)) for e in closers] == [neutral_closer(e) for e in expected["closers"]]
    surface = Surface.of(events + closers)
    assert surface.nodes == expected["surfaceNodes"]
    assert list(map(neutral, surface.messages())) == list(map(neutral, expected["messages"]))
    assert (surface.header, surface.context) == (expected["requestHeader"], expected["requestContext"])


def neutral_closer(envelope):
    message = envelope["data"].get("message") if envelope["type"] == "tool/result" else None
    return {**envelope, "data": {**envelope["data"], "message": neutral(message)}} if message else envelope


@over(ACCEPTED)
def test_packed_as_the_original_packs(case, path):
    """One batch of all events, for logs without closers (worded by each program) and without JavaScript's numbers."""
    _, events = load(path)
    if events and not case.expected["closers"] and as_written(path, events):
        sums = case.expected["lines"]
        assert digest(codec.pack(events)) == sums["packedSha256"]
        assert digest(map(codec.encode, events)) == sums["unpackedSha256"]


def as_written(path, events):
    """Whether encoding gives each unpacked line of the file again: no old shapes, number forms or other key orders."""
    lines = set(plain(path).split(b"\n"))
    return all(codec.encode(event) in lines for event in events if event.type != ASSISTANT_CHUNK)


def digest(lines):
    return hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()


@pytest.mark.django_db
@over(ACCEPTED)
def test_stored_log(case, path):
    """What the database gives back: messages, boundaries, and the file itself."""
    owner = User.objects.create(username="ann")
    with path.open("rb") as stream:
        [session] = import_logs(owner, [(path.name, stream)])
    expected = case.expected
    assert session.next_seq == expected["storedEventCount"]
    surface = reading.repaired(session)
    assert list(map(neutral, surface.messages())) == list(map(neutral, expected["messages"]))
    assert (surface.nodes, surface.header) == (expected["surfaceNodes"], expected["requestHeader"])
    assert list(faults(session)) == []
    if not torn_tail(case, path):
        assert b"".join(export_dsh(session)) == plain(path)
    for probe in expected["hostFork"] if expected["balanced"] else []:
        if probe["ok"]:
            assert boundary_of(session, probe["atSeq"]) == probe["seedLength"]


def boundary_of(session, at_seq):
    if at_seq is None:
        return boundary.default(session.head)
    return boundary.at_message(session.head, at_seq, reading.next_turn_start(session, at_seq))
