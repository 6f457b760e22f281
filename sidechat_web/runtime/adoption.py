"""Going on with a session that another program left in the middle of a turn."""

from __future__ import annotations

from sidechat_web.core.events import Draft
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Session


def adopt(session: Session) -> None:
    """Close, in the locked session's log, the turn that another program left open; once, before we write there."""
    closers = reading.closers(session)
    log.append_locked(session, [Draft(c.type, c.data, c.surface_op, c.source_event_seqs) for c in closers])
