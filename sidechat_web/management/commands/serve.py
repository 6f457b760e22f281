"""`manage.py serve`: pages, sockets and turns in one process, by Daphne."""

from daphne.server import Server  # isort: skip  # before anything of Twisted: it chooses the asyncio reactor

import asyncio
import ipaddress
import logging
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daphne.endpoints import build_endpoint_description_strings
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from twisted.internet.defer import Deferred

from sidechat_web.accounts import local_token, local_user
from sidechat_web.accounts.users import is_first
from sidechat_web.management import bodies
from sidechat_web.management.mirroring import Mirroring
from sidechat_web.management.refusal import refuse
from sidechat_web.runtime.db import in_db

_logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Serve Sidechat: pages, sockets and turns in one process."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="0 = any free one (default: %(default)s)")
        parser.add_argument("--migrate", action="store_true", help="bring the database up to date first")
        parser.add_argument("--open", action="store_true", help="open the page in the browser")
        parser.add_argument(
            "--mirror",
            metavar="DIR",
            type=Path,
            action="append",
            default=[],
            help="follow a directory of other programs' sessions for the local user; may be given again",
        )

    def handle(self, *, host: str, port: int, migrate: bool, open: bool, mirror: list[Path], **options: Any) -> None:
        for directory in mirror:
            if not directory.is_dir():
                refuse(self, f"--mirror {directory}: not a directory")
        if migrate:
            self._migrate()
        if not is_loopback(host):
            self._require_sign_in(host)
        if is_wildcard(host):
            self.stdout.write(f"Answering to the names in SIDECHAT_ALLOWED_HOSTS: {', '.join(settings.ALLOWED_HOSTS)}")
        else:
            settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, in_url(host)]
        server = SidechatServer(self, host, port, open_browser=open, mirrored=mirror)
        server.run()
        if server.failure:
            refuse(self, server.failure)
        self.stdout.write("Sidechat has stopped.")

    def _migrate(self) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            self.stdout.write("Updating the database ...")
            call_command("migrate", interactive=False, verbosity=0)
        connection.close()

    def _require_sign_in(self, host: str) -> None:
        """Nobody is signed in without a password on an address that others can reach."""
        settings.SIDECHAT_LOCAL_MODE = False
        if is_first():
            elsewhere = "" if settings.DATA_DIR == settings.BASE_DIR / "data" else f" --data-dir {settings.DATA_DIR}"
            refuse(
                self,
                f"On {host} others can reach Sidechat, so it needs a user with a password first: "
                f"./sidechat user add NAME{elsewhere}",
            )
        connection.close()


class SidechatServer(Server):  # type: ignore[misc]
    """Daphne with the application's own start and stop around it. `failure` says why it could not serve."""

    connections: dict[Any, dict[str, Any]]

    def __init__(
        self, command: BaseCommand, host: str, port: int, *, open_browser: bool, mirrored: Sequence[Path] = ()
    ) -> None:
        from sidechat_web.asgi import application

        endpoints = build_endpoint_description_strings(host=host, port=port)
        super().__init__(
            application,
            endpoints,
            ready_callable=self._begin,
            websocket_timeout=-1,
            websocket_max_message_size=bodies.MAX_FRAME_BYTES,
            websocket_max_frame_size=bodies.MAX_FRAME_BYTES,
            server_name="",
        )
        self.host, self.port = host, port
        self.failure = ""
        self._command = command
        self._open_browser = open_browser
        self._mirrored = mirrored
        self._mirroring: Mirroring | None = None

    def listen_error(self, failure: Any) -> None:
        self.failure = (
            f"Cannot listen on {self.host}, port {self.port}: {failure.value.socketError.strerror}. "
            f"Stop what runs there, or choose another port: ./sidechat run --port {self.port + 1}"
        )
        self.stop()

    def kill_all_applications(self) -> Any:
        """Called when the reactor is to stop: end our work first, then Daphne's connections."""
        self.connections = {p: details for p, details in self.connections.items() if "application_instance" in details}
        ended = Deferred.fromFuture(asyncio.ensure_future(self._stop()))
        return ended.addBoth(lambda _: super(SidechatServer, self).kill_all_applications())

    def _begin(self) -> None:
        bodies.bound(self.http_factory)
        self._starting = asyncio.get_event_loop().create_task(self._start())

    async def _stop(self) -> None:
        if self._mirroring is not None:
            await self._mirroring.stop()
        await self.application.stop()

    async def _start(self) -> None:
        try:
            await self.application.start()
        except Exception as e:
            _logger.exception("the runner did not start")
            self.failure = f"Sidechat could not start: {e}"
            self.stop()
            return
        if settings.SIDECHAT_LOCAL_MODE:
            await in_db(local_token)
        if self._mirrored:
            self._mirroring = Mirroring(await in_db(local_user), self._mirrored)
            self._mirroring.start()
        self.port = self.listening_addresses[0][1]
        await first_answer(self.host, self.port)
        url = f"http://{in_url(self.host)}:{self.port}/"
        self._command.stdout.write(f"Sidechat is at {url}")
        self._command.stdout.flush()
        if self._open_browser and has_display():
            await asyncio.to_thread(webbrowser.open, url)


async def first_answer(host: str, port: int) -> None:
    """Return when the server has answered a request; its first one also loads what later ones need."""
    reader, writer = await asyncio.open_connection("localhost" if is_wildcard(host) else host, port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    await reader.read()
    writer.close()


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def has_display() -> bool:
    """Whether a browser can show a window; a text browser would take the terminal over."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
