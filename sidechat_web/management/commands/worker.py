"""`manage.py worker`: runs turns as jobs, beside web processes that only take and show them."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from sidechat_web.management.refusal import refuse
from sidechat_web.runtime import jobs, local_model


class Command(BaseCommand):
    help = "Run turns as jobs (SIDECHAT_RUNNER=procrastinate, DATABASE_URL, REDIS_URL)."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--concurrency", type=int, default=200, help="turns at once (default: %(default)s)")

    def handle(self, *, concurrency: int, **options: Any) -> None:
        if settings.SIDECHAT_RUNNER != "procrastinate":
            refuse(self, "Turns run in the server itself; set SIDECHAT_RUNNER=procrastinate to run them in workers.")
        self.stdout.write(f"This worker runs up to {concurrency} turns at once.")
        self.stdout.flush()
        asyncio.run(self._work(concurrency))
        self.stdout.write("The worker has stopped.")

    async def _work(self, concurrency: int) -> None:
        try:
            await jobs.work(concurrency)
        finally:
            await local_model.stop()
