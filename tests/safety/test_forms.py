"""Every form and every page's query with what no form sends: refused or taken, never a failure of ours.

`SIDECHAT_TEST_CASES=20000 pytest tests/safety/test_forms.py` tries more.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from django import forms
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import sidechat_web

from .test_matrix import BODY, browser, ids_of, pages

CASES = int(os.environ.get("SIDECHAT_TEST_CASES", "500"))
BAD = [
    b"",
    b" ",
    b"0",
    b"-1",
    b"on",
    b"x" * 300,
    b"y" * 1_100_000,
    b"9" * 30,
    b"9" * 5000,
    b"1e9",
    b"NaN",
    b"1.5",
    b"\x00",
    b"a\x00b",
    b"\xff\xfe",
    b"\xed\xa0\x80",  # a lone surrogate
    b"\xf4\x90\x80\x80",  # beyond Unicode
    "٣".encode(),
    "\u2028\u202e\r\n".encode(),
    b"[]",
    b'{"a": {}}',
    b"../../etc/passwd",
    b"http://[::1",
    b"javascript:alert(1)",
    b"a" * 26,
    b"custom/fake",
]
BODIES = [  # content type, body
    ("application/json", b'{"text": ["x"]}'),
    ("text/plain", b"text=x"),
    ("multipart/form-data", b"text=x"),
    ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=text\r\n\r\ncut"),
    (
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\nx\r\n--b--',
    ),
    ("multipart/form-data; boundary=" + "b" * 300, b"\r\n"),
    ("application/x-www-form-urlencoded; charset=no-such", b"text=x"),
    ("application/x-www-form-urlencoded; charset=utf-16", b"text=x"),
    ("application/x-www-form-urlencoded", b"&=&==&text&text=a&text=b&%zz=%ff&" + b"n=1&" * 1100),
    ("", b"\x00\xff"),
]
HEADERS = [
    {},
    {"HX-Request": "true"},
    {"HX-Request": "true", "HX-Target": "\udcff".encode("utf-8", "surrogateescape").decode("latin1")},
    {"HX-Request": "true", "HX-Current-URL": "http://[::1", "HX-Target": "x" * 5000},
    {"Referer": "http://[", "Accept-Language": "\x00", "Accept-Encoding": "gzip;q=x"},
    {"Content-Length": "-1"},
    {"X-Forwarded-For": "x" * 5000, "User-Agent": ""},
]


def names():
    """Every field of a form, and what the views read by hand."""
    found = {name for form in _forms(forms.Form) for name in form.base_fields}
    for file in Path(sidechat_web.__file__).parent.rglob("*.py"):
        found |= set(re.findall(r'(?:POST|GET)(?:\.get|\.getlist)?[(\[]\s*"(\w+)"', file.read_text()))
    return sorted(found)


def _forms(form):
    return [below for kind in form.__subclasses__() for below in (kind, *_forms(kind))]


NAMES = names()
fields = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([None, *BAD])), max_size=4)


def encoded(sound, odd):
    """A form's body: what a browser would send where `sound`, with the odd fields in place of its own."""
    pairs = {name: str(value).encode() for name, value in BODY.items()} if sound else {}
    pairs |= dict(odd)
    return "&".join(f"{name}={quote_plus(value)}" for name, value in pairs.items() if value is not None)


def test_names_of_fields_are_found():
    assert {"text", "seq", "username", "decision", "sides", "days", "trusted"} <= set(NAMES)


@pytest.mark.parametrize("call", pages(), ids=lambda c: f"{c.method} {c.name}")
def test_nothing_fails(world, call):
    actor = "admin" if "admin" in call.rule else "owner"
    client = browser(world, actor, raise_request_exception=False)
    path = call.of(ids_of(call, world))
    form = "application/x-www-form-urlencoded"

    @seed(1)
    @settings(
        max_examples=max(1, CASES // len(pages())),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        body=st.one_of(st.sampled_from(BODIES), st.tuples(st.just(form), st.builds(encoded, st.booleans(), fields))),
        query=st.one_of(st.just(""), st.builds(encoded, st.just(False), fields)),
        headers=st.sampled_from(HEADERS),
    )
    def once(body, query, headers):
        assert send(client, call.method, f"{path}?{query[:60_000]}", *body, headers) < 500

    once()


def send(client: Client, method, path, content_type, body, headers):
    """The status; whatever the call did is undone."""
    with transaction.atomic():
        given = (body, content_type) if method == "POST" else ()
        status = client.generic(method, path, *given, headers=headers).status_code
        transaction.set_rollback(True)
    return status


@pytest.mark.parametrize("number", ["0", "9" * 18, "9" * 19, "9" * 30, "9" * 5000])
def test_numbers_in_paths_are_of_any_length(world, number):
    client = browser(world, "owner", raise_request_exception=False)
    path = f"/s/{world.aside.pk}"
    for address in (f"{path}/text/{number}", f"{path}/older?own={number}", f"{path}/?side={number}"):
        assert client.get(address).status_code in (200, 302, 400, 404, 409, 422), address
