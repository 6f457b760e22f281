"""What a user may have the server talk to: the public internet, by whatever spelling."""

import ipaddress
import socket

import httpx2
import pytest

from sidechat_web.runtime import egress
from sidechat_web.runtime.egress import NotPublic


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a00:1::",
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",
        "2001:db8::1",
    ],
)
def test_address_that_is_not_public(address):
    assert not egress.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_address(address):
    assert egress.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://8.8.8.8/",
        "file:///etc/passwd",
        "gopher://8.8.8.8/",
        "https://",
        "https:///x",
        "http://[::1",
        "http://8.8.8.8:99999/",
        "http://user:pw@8.8.8.8/",
        "http://user@8.8.8.8/",
        "http://8.8.8.8/a b",
        "http://8.8.8.8/\r\nX: y",
        "http://localhost/",
        "http://127.0.0.1:8000/v1",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1%25lo]/",
        "http://169.254.169.254/latest/meta-data",
        "http://localhost./",
        "http://LOCALHOST/",
        "http://①②⑦.0.0.1/",
        "http://no-such-host.invalid/",
        "http://" + "x" * 300 + ".example/",
    ],
)
def test_url_that_is_refused(url):
    with pytest.raises(NotPublic) as refusal:
        egress.check_url(url)
    assert "pw" not in refusal.value.message


@pytest.mark.parametrize("url", ["https://8.8.8.8/v1", " http://1.1.1.1:8080/v1 ", "https://[2606:4700:4700::1111]/"])
def test_url_that_is_taken(url):
    assert egress.check_url(url) == url.strip()


def test_name_with_one_private_address_among_public_ones_is_refused():
    with pytest.raises(NotPublic):
        egress.judged("example.org", ["8.8.8.8", "10.0.0.1"])


@pytest.fixture
def listener():
    """A server on this machine that nobody must reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_connection_to_this_machine_is_never_made(listener, name):
    url = f"http://{name}:{listener.getsockname()[1]}/"
    async with httpx2.AsyncClient(transport=egress.async_transport()) as client:
        with pytest.raises(httpx2.ConnectError, match="private network"):
            await client.get(url)
    with httpx2.Client(transport=egress.transport()) as client, pytest.raises(httpx2.ConnectError):
        client.get(url)
    with pytest.raises(TimeoutError):
        listener.accept()


def test_connection_goes_to_the_judged_address_under_the_url_s_name():
    request = httpx2.Request("POST", "https://api.example.org:8443/v1/x?y=1", content=b"body")
    bound = egress._bound(request, ["8.8.8.8"])
    assert str(bound.url) == "https://8.8.8.8:8443/v1/x?y=1"
    assert bound.headers["Host"] == "api.example.org:8443"
    assert bound.extensions["sni_hostname"] == "api.example.org"
    assert bound.headers["Content-Length"] == "4"
