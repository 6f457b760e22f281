"""What the running server takes off the wire: large bodies and frames end while they arrive."""

import socket

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.faults.product import Product


@pytest.fixture(scope="module")
def product(tmp_path_factory, provider_server):
    with Product(tmp_path_factory.mktemp("wire"), provider_server.base_url) as product:
        yield product


def talk(product, head, piece=b"x" * 65536, pieces=0, until=None):
    """Send a head and up to `pieces` pieces; returns how many went out, and the answer."""
    with socket.create_connection(("127.0.0.1", product.port), timeout=20) as wire:
        wire.sendall(head.replace("\n", "\r\n").encode())
        sent = 0
        try:
            while sent < pieces:
                wire.sendall(piece)
                sent += 1
        except OSError:
            pass
        answer = b""
        try:
            while more := wire.recv(65536):
                answer += more
        except OSError:
            pass
        return sent, answer


def head(product, path, *lines):
    return "\n".join([f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{product.port}", *lines, "", ""])


@pytest.mark.parametrize("path", ["/api/import", "/accounts/login/", "/static/css/app.css", "/ws/tree/"])
def test_announced_body_without_a_token_is_refused_before_it_is_sent(product, path):
    _, answer = talk(product, head(product, path, "Content-Length: 1000000000"))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code": "too_large"' in answer


def test_body_of_unknown_length_is_cut(product):
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    sent, _ = talk(product, head(product, "/api/sessions", "Transfer-Encoding: chunked"), chunk, pieces=2000)
    assert sent < 1000
    assert product.call("GET", "/healthz")[0] == 200


def test_import_with_a_token_may_be_large(product):
    size = 40 << 20
    lines = (f"Authorization: Bearer {product.token}", f"Content-Length: {size}")
    sent, answer = talk(product, head(product, "/api/import", *lines, "Connection: close"), pieces=size // 65536)
    assert sent == size // 65536
    assert answer.startswith(b"HTTP/1.1 422 ")


@pytest.mark.parametrize("frame", ["x" * 100_000, b"\x00" * 100_000])
def test_large_frame_closes_the_socket(product, frame):
    headers = {"Authorization": f"Bearer {product.token}"}
    with connect(f"ws://127.0.0.1:{product.port}/ws/tree/?as=json", additional_headers=headers) as client:
        assert '"hello"' in client.recv(10)
        client.send(frame)
        with pytest.raises(ConnectionClosed):
            client.recv(10)


@pytest.mark.parametrize("frame", ["", "{}", "x" * 60_000, b"\x00\xff", '{"t":"event"}'])
def test_what_a_client_says_is_ignored(product, frame):
    headers = {"Authorization": f"Bearer {product.token}"}
    with connect(f"ws://127.0.0.1:{product.port}/ws/tree/?as=json", additional_headers=headers) as client:
        assert '"hello"' in client.recv(10)
        client.send(frame)
        product.call("POST", "/api/sessions", {"title": "after the frame"})
        assert "after the frame" in client.recv(10)
