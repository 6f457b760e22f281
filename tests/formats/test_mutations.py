"""Random logs leave and come back the same; damaged ones are refused, or read as the same log."""

import io

import pytest
import zstandard
from django.contrib.auth.models import User
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidechat_web.core import codec
from sidechat_web.core.errors import LogRefused
from sidechat_web.core.events import CONTEXT_MESSAGE, Replace
from sidechat_web.core.surface import Surface
from sidechat_web.formats.checking import faults
from sidechat_web.formats.dsh import DshLog
from sidechat_web.formats.exporting import export_dsh
from sidechat_web.formats.importing import import_logs
from sidechat_web.storage import reading
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Session
from tests.core.generated import crashed, logs
from tests.faults import malformed

from .foreign import file, header

in_database = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 2
)


def written(events, zstd=False, log_id="one"):
    """The log as a file: the header, then the events in batches of a few."""
    batches = [[header(log_id)], *(list(codec.pack(events[i : i + 7])) for i in range(0, len(events), 7))]
    parts = [b"".join(line + b"\n" for line in batch) for batch in batches]
    return b"".join(map(zstandard.ZstdCompressor(write_checksum=True).compress, parts)) if zstd else b"".join(parts)


def read(data):
    log = DshLog(io.BytesIO(data))
    return [event for line in log.lines() for event in line.events()], log


def shape(events):
    """What a log's structure is: seqs, types, and what each event does to the surface."""
    return [(e.seq, e.type, "replace" if isinstance(e.surface_op, Replace) else e.surface_op) for e in events]


def damaged(data, draw):
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]


@given(crashed(), st.booleans())
def test_what_is_written_is_read(events, zstd):
    found, log = read(written(events, zstd))
    assert found == events and log.torn is None


@given(logs(min_turns=1), st.booleans(), st.data())
def test_a_mutated_byte_leads_to_a_refusal_or_to_the_same_structure(events, zstd, data):
    """Only words, numbers and ids inside an event's data may be others; a lost end is named as torn."""
    try:
        found, log = read(damaged(written(events, zstd), data.draw))
    except LogRefused as refused:
        assert refused.code in ("log_unsupported", "log_corrupt", "log_unreadable") and refused.reason
        return
    assert shape(found) == shape(events)[: len(found)]
    assert len(found) == len(events) or log.torn is not None
    Surface.of(found)


@pytest.mark.django_db
@in_database
@given(logs(min_turns=1), st.booleans())
def test_a_log_that_was_imported_leaves_byte_for_byte(events, zstd):
    owner = User.objects.create(username=new_id())
    [session] = import_logs(owner, [file(written(events, zstd))])
    assert b"".join(export_dsh(session)) == written(events)
    assert list(faults(session)) == []
    assert reading.surface(session).messages() == Surface.of(events).messages()


@pytest.mark.django_db
@in_database
@given(logs(min_turns=1), st.booleans(), st.data())
def test_a_mutated_byte_never_changes_a_log_that_is_known(events, zstd, data):
    """It is a conflict, another log, or an older version of the same: what is here stays as it is."""
    owner = User.objects.create(username=new_id())
    [session] = import_logs(owner, [file(written(events))])
    try:
        [again] = import_logs(owner, [file(damaged(written(events, zstd), data.draw))])
        assert again.pk == session.pk or again.log_id != session.log_id
    except LogRefused:
        assert Session.objects.filter(owner=owner).count() == 1
    assert b"".join(export_dsh(session)) == written(events)


@pytest.mark.django_db
@in_database
@given(logs(min_turns=1))
def test_our_own_logs_come_back_with_the_same_messages(events):
    """A log with `context/message`s, as we write them, is exported as one that the original program reads."""
    owner = User.objects.create(username=new_id())
    [session] = import_logs(owner, [file(written(events))])
    Session.objects.filter(pk=session.pk).update(imported=False, header_line=b"", foreign_length=0)
    data = b"".join(export_dsh(session))
    found, _ = read(data)
    assert CONTEXT_MESSAGE not in {event.type for event in found}
    assert Surface.of(found).messages() == Surface.of(events).messages()
    [back] = import_logs(User.objects.create(username=new_id()), [file(data)])
    assert b"".join(export_dsh(back)) == data


@pytest.mark.django_db
def test_malformed_files_in_short():
    assert malformed.run(files=150, seed=7) == []
