"""The set-up of `deploy/`, for real: nginx with TLS, two web processes, two workers, PostgreSQL, Redis, Chromium.

    python -m tests.operations.behind_nginx        (needs nginx and openssl)

Signs in through the proxy, streams answers to a page, and restarts both web processes in turn meanwhile. Prints what
was checked; status 1 where something failed.
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import FLAGS
from tests.faults.product import Product, Worker, free_port
from tests.scripted_provider import ScriptedProvider
from tests.services import create_database, postgres_server, redis_server, wait_for_port

HOST = "sidechat.example.org"
DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "nginx"
LONG = "[[every:40]] [[say:" + " ".join(f"word{n}" for n in range(400)) + "]]"


class Nginx:
    """nginx on free ports with the files of `deploy/nginx`, changed only in ports and places."""

    def __init__(self, folder: Path, webs: list[Product]) -> None:
        self.folder, self.http, self.https = folder, free_port(), free_port()
        servers = "\n".join(f"server 127.0.0.1:{web.port} max_fails=0;" for web in webs)
        upstream = f"upstream sidechat {{\n{servers}\nkeepalive 32;\n}}\n"
        site = (DEPLOY / "sidechat.conf").read_text()
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{self.http};"),
            ("listen 443 ssl http2;", f"listen 127.0.0.1:{self.https} ssl http2;"),
            ("/etc/ssl/sidechat", str(folder)),
            ("/var/log/nginx", str(folder)),
            ("$host;", f"$host:{self.https};"),
            ("https://$host$request_uri", f"https://$host:{self.https}$request_uri"),
        ):
            assert old in site, old
            site = site.replace(old, new)
        subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
        keys = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *keys, *subject]
        subprocess.run(command, check=True, capture_output=True)
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
            f"http {{\n{temporary}{upstream}{site}}}\n"
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        command = [
            shutil.which("nginx") or "/usr/sbin/nginx",
            "-p",
            str(self.folder),
            "-c",
            str(self.folder / "nginx.conf"),
        ]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(self.https)
            yield
        finally:
            process.terminate()
            process.wait(10)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> http.client.HTTPResponse:
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.https, context=context, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Host": f"{HOST}:{self.https}", **named})
        return connection.getresponse()


class Report:
    """What was checked, one line each."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, good: object) -> None:
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)


def main() -> int:
    report = Report()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        provider = stack.enter_context(ScriptedProvider())
        webs = stack.enter_context(services(folder, provider))
        nginx = Nginx(folder, webs)
        stack.enter_context(nginx.running())
        over_http(nginx, report)
        with sync_playwright() as playwright:
            rules = f"--host-resolver-rules=MAP {HOST} 127.0.0.1"
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*FLAGS, rules])
            context = browser.new_context(ignore_https_errors=True)
            in_browser(context.new_page(), nginx, webs, report)
            cookies = {cookie["name"]: cookie for cookie in context.cookies()}
            report.check("cookies are Secure, HttpOnly and __Host-", secure(cookies))
            browser.close()
        log = (folder / "sidechat.log").read_text()
        report.check("nginx logs neither tokens nor invitations", "sc_" not in log and "SECRETINVITATION" not in log)
        check = webs[0].manage("check_logs")
        report.check(f"every log passes the check: {check.stdout.strip().splitlines()[-1]}", check.returncode == 0)
    print("failed" if report.failed else "all good")
    return int(bool(report.failed))


@contextlib.contextmanager
def services(folder: Path, provider: ScriptedProvider) -> Iterator[list[Product]]:
    with contextlib.ExitStack() as stack:
        redis, postgres = stack.enter_context(redis_server()), stack.enter_context(postgres_server())
        environment = {
            "DATABASE_URL": create_database(postgres, "sidechat"),
            "REDIS_URL": f"redis://127.0.0.1:{redis.port}/0",
            "SIDECHAT_RUNNER": "procrastinate",
            "SIDECHAT_PROXY": "https",
            "SIDECHAT_LOCAL_MODE": "off",
            "SIDECHAT_ALLOWED_HOSTS": HOST,
            "SIDECHAT_SECRET_KEY": "k" * 40,
        }
        webs = []
        for n in range(2):
            (folder / f"web{n}").mkdir()
            webs.append(Product(folder / f"web{n}", provider.base_url, **environment))
        webs[0].manage("migrate", "-v0")
        webs[0].manage("user", "add", "ann", "--password-stdin", typed="a long password\n")
        workers = [Worker(webs[0]) for _ in range(2)]
        for process in (*webs, *workers):
            process.start()
            stack.callback(process.kill)
        yield webs


def over_http(nginx: Nginx, report: Report) -> None:
    answer = nginx.ask("GET", "/accounts/login/")
    report.check("the sign-in page comes through", answer.status == 200)
    report.check("HSTS is sent", "max-age=31536000" in answer.headers.get("Strict-Transport-Security", ""))
    report.check("a foreign Host is refused", nginx.ask("GET", "/accounts/login/", Host="evil.example").status == 400)
    report.check("/metrics and /readyz are not for everybody", nginx.ask("GET", "/readyz").status == 404)
    report.check("a large body ends at nginx", nginx.ask("POST", "/accounts/login/", b"x" * (18 << 20)).status == 413)
    nginx.ask("GET", "/accounts/join/SECRETINVITATION0123456789/")
    nginx.ask("GET", "/api/sessions?token=sc_SECRETTOKEN0123456789")
    plain = http.client.HTTPConnection("127.0.0.1", nginx.http)
    with contextlib.closing(plain):
        plain.request("GET", "/x", headers={"Host": HOST})
        report.check("plain HTTP leads to HTTPS", plain.getresponse().headers["Location"].startswith("https://"))


def in_browser(page: Page, nginx: Nginx, webs: list[Product], report: Report) -> None:
    url = f"https://{HOST}:{nginx.https}"
    page.goto(f"{url}/accounts/login/")
    page.fill("[name=username]", "ann")
    page.fill("[name=password]", "a long password")
    page.click("button[type=submit]")
    page.goto(f"{url}/new/")
    report.check("signing in works through the proxy", page.url.endswith("/new/"))
    page.fill("textarea[name=text]", LONG)
    page.press("textarea[name=text]", "Enter")
    page.wait_for_url("**/s/*/")
    page.locator("#main .answer").get_by_text("word20 ").wait_for()
    report.check("an answer streams over a socket through nginx", True)
    for number, web in enumerate(webs):
        began = time.monotonic()
        web.terminate()
        answers = [nginx.ask("GET", "/healthz").status for _ in range(10)]
        report.check(f"with web process {number} away, 10 requests are answered: {answers}", set(answers) == {200})
        web.start()
        time.sleep(3)
        print(f"     web process {number} was away for {time.monotonic() - began - 3:.1f} s")
    page.locator("#main .answer").get_by_text("word399").wait_for(timeout=60_000)
    text = page.locator("#main .answer").inner_text()
    words = [word for word in text.split() if word.startswith("word")]
    report.check(
        "the answer is whole, once, after both restarts, without a reload", words == [f"word{n}" for n in range(400)]
    )
    page.reload()
    again = [word for word in page.locator("#main .answer").inner_text().split() if word.startswith("word")]
    report.check("a reload shows the same", again == words)


def secure(cookies: dict[str, Any]) -> bool:
    named = {"__Host-sidechat_session", "__Host-sidechat_csrf"} <= set(cookies)
    return named and all(cookie["secure"] and cookie["httpOnly"] for cookie in cookies.values())


if __name__ == "__main__":
    sys.exit(main())
