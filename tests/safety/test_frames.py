"""Sockets that get what no client of ours sends: bytes at random after the handshake, frames of every kind, odd
addresses. Each is ignored or closed, others keep their sockets, and nothing fails inside."""

import base64
import os
import random
import socket
import struct

import pytest
from websockets.sync.client import connect

from tests.faults.product import Product

KINDS = ("tree", "session")


@pytest.fixture(scope="module")
def product(tmp_path_factory, provider_server):
    with Product(tmp_path_factory.mktemp("frames"), provider_server.base_url) as product:
        product.main = product.call("POST", "/api/sessions", {"title": "Main"})[1]["id"]
        yield product
        assert "Traceback" not in product.log()


@pytest.fixture
def bystander(product):
    """Somebody else's socket, which has to go on."""
    headers = {"Authorization": f"Bearer {product.token}"}
    url = f"{product.url.replace('http', 'ws')}/ws/tree/?as=json"
    with connect(url, additional_headers=headers, max_queue=None) as client:
        assert '"hello"' in client.recv(10)
        yield client
        product.call("POST", "/api/sessions", {"title": "after all that"})
        while "after all that" not in client.recv(10):
            pass


def address(product, kind):
    return "/ws/tree/" if kind == "tree" else f"/ws/sessions/{product.main}/"


def opened(product, path):
    """A connection after the handshake, by hand; None where the server refuses it."""
    wire = socket.create_connection(("127.0.0.1", product.port), timeout=20)
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{product.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        f"Authorization: Bearer {product.token}",
        "",
        "",
    )
    wire.sendall("\r\n".join(lines).encode("utf-8", "surrogateescape"))
    status = wire.recv(65536).split(b"\r\n")[0]
    return wire, status


def frame(first, payload, masked=True, length=None):
    """One frame with a first byte and, where given, a length that is not the payload's."""
    size = len(payload) if length is None else length
    mark = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", first, mark | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, mark | 126, size)
    else:
        head = struct.pack("!BBQ", first, mark | 127, size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


FRAMES = {
    "text": frame(0x81, b'{"t": "hello"}'),
    "text that is not JSON": frame(0x81, b"\x00{" * 50),
    "text that is not UTF-8": frame(0x81, b"\xff\xfe\xed\xa0\x80"),
    "binary": frame(0x82, bytes(range(256))),
    "long text": frame(0x81, b"x" * 200_000),
    "long binary": frame(0x82, b"\0" * 200_000),
    "a length beyond memory": frame(0x82, b"x", length=1 << 62),
    "a length with its highest bit": frame(0x82, b"x", length=(1 << 64) - 1),
    "not masked": frame(0x81, b"x", masked=False),
    "a continuation of nothing": frame(0x80, b"x"),
    "fragments without an end": frame(0x01, b"x") + frame(0x00, b"x") * 500,
    "a text inside a text": frame(0x01, b"x") + frame(0x81, b"y"),
    "reserved bits": frame(0xF1, b"x"),
    "an unknown kind": frame(0x83, b"x"),
    "a long ping": frame(0x89, b"x" * 300),
    "many pings": frame(0x89, b"x" * 100) * 500,
    "a pong that nobody asked for": frame(0x8A, b"x"),
    "a close of one byte": frame(0x88, b"x"),
    "a close with a code that is none": frame(0x88, b"\x00\x01"),
    "a close whose reason is not UTF-8": frame(0x88, b"\x03\xe8\xff"),
    "half a head": b"\x81",
    "HTTP": b"GET / HTTP/1.1\r\n\r\n" * 20,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FRAMES)
def test_frame(product, bystander, kind, name):
    wire, status = opened(product, address(product, kind))
    assert b" 101 " in status
    with wire:
        wire.sendall(FRAMES[name])


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_at_random(product, bystander, kind):
    chance = random.Random(1)
    for _ in range(60):
        wire, status = opened(product, address(product, kind))
        assert b" 101 " in status
        with wire:
            first = chance.choice([0x81, 0x82, 0x01, 0x88, 0x89, chance.randrange(256)])
            junk = chance.randbytes(chance.randrange(2000))
            wire.sendall(chance.choice([junk, frame(first, junk)]))


@pytest.mark.parametrize(
    "query", ["after=x", f"after={'9' * 30}", f"after={'9' * 3000}", "after=-9&after=", "as=%ff&chunks=%00", "&=&%"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_query(product, bystander, kind, query):
    headers = {"Authorization": f"Bearer {product.token}"}
    url = f"{product.url.replace('http', 'ws')}{address(product, kind)}?as=json&{query}"
    with connect(url, additional_headers=headers) as client:
        assert client.recv(10)


@pytest.mark.parametrize(
    "path", ["/ws/", "/ws/sessions/%00/", "/ws/sessions/../tree/", "/ws/sessions/" + "x" * 3000 + "/", "/ws/\udcff"]
)
def test_address(product, bystander, path):
    wire, _ = opened(product, path)
    wire.close()
