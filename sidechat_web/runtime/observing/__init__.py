"""What this process did, read off the events that it appends: a journal, figures and traces.

Nothing in the runtime reports anything: whatever happened is in the log, and this package hears of each append.
Of what anybody said, nothing passes through here.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidechat_web.core.events import Event

from . import journal, metrics, traces
from .facts import Watch

_watch = Watch()


def appended(session_id: str, events: Sequence[Event]) -> None:
    """A listener of `storage.log`: after the commit, in the database thread."""
    for fact in _watch.see(session_id, events):
        journal.write(fact)
        metrics.count(fact)
        traces.record(fact)
