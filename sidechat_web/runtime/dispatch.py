"""Handing a session's waiting work to a runner: a bell in this process, or a durable job for any worker.

With `SIDECHAT_RUNNER=procrastinate` the job is enqueued in the transaction that accepted the work, one
waiting job a session, and one at a time a session by its lock. Without it the bell starts the work in
this process, and the slow round finds what a lost bell leaves.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.db import transaction

from . import live

QUEUE: Final = "turns"
TASK: Final = "sidechat.drive"


def by_jobs() -> bool:
    return bool(settings.SIDECHAT_RUNNER == "procrastinate")


def enqueue(session_id: str) -> None:
    """Have what waits in the session run; in the transaction that made it wait."""
    if by_jobs():
        _defer(session_id)
    transaction.on_commit(lambda: live.ring(session_id, "queue"))


def _defer(session_id: str) -> None:
    from procrastinate.contrib.django import app
    from procrastinate.exceptions import AlreadyEnqueued

    job = app.configure_task(TASK, queue=QUEUE, lock=session_id, queueing_lock=session_id)
    try:
        with transaction.atomic():
            job.defer(session_id=session_id)
    except AlreadyEnqueued:
        pass  # the job that waits already will find this work, too
