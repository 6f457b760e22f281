"""Turns as jobs of the procrastinate engine, for any number of workers on any number of machines.

A job drives one session until nothing waits there. Aborting a job is Stop. A worker whose heartbeat lapsed is
dead: its jobs are released, since their locks would hold its sessions, and the runner's round closes its turns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from . import dispatch, runner

if TYPE_CHECKING:
    from procrastinate import JobContext

BEAT_SECONDS: Final = 3.0
LAPSE_SECONDS: Final = 10.0
DRAIN_SECONDS: Final = 20.0


def register() -> None:
    """Give the engine the task that a job names."""
    from procrastinate.contrib.django import app

    app.task(name=dispatch.TASK, queue=dispatch.QUEUE, pass_context=True)(drive)


async def drive(context: JobContext, session_id: str) -> None:
    """Run what waits in the session; an abort stops its turn and leaves its queue."""
    from procrastinate.job_context import AbortReason

    work = runner.here().drive(session_id)
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        if context.abort_reason() == AbortReason.USER_REQUEST:
            runner.here().stop_turn(session_id)
            await work


async def work(concurrency: int) -> None:
    """Take jobs until SIGTERM or SIGINT; then let turns end for a while and close the rest as interrupted."""
    from procrastinate.contrib.django import app

    await runner.start(worker=True)
    engine = app.with_connector(app.connector.get_worker_connector())  # type: ignore[attr-defined]
    async with engine.open_async():
        await engine.run_worker_async(
            queues=[dispatch.QUEUE],
            concurrency=concurrency,
            shutdown_graceful_timeout=DRAIN_SECONDS,
            update_heartbeat_interval=BEAT_SECONDS,
            stalled_worker_timeout=LAPSE_SECONDS,
            delete_jobs="always",
        )
    await runner.stop()


async def release_stalled() -> None:
    """Fail the jobs of dead workers; what still waits in their sessions is enqueued anew by the round."""
    from procrastinate.contrib.django import app
    from procrastinate.jobs import Status

    for job in await app.job_manager.get_stalled_jobs(queue=dispatch.QUEUE, seconds_since_heartbeat=LAPSE_SECONDS):
        if job.id is not None:
            await app.job_manager.finish_job_by_id_async(job.id, Status.FAILED, delete_job=True)
