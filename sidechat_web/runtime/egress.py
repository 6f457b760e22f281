"""Addresses that a user may have the server talk to, where the user is not its operator: the public internet only.

A name is looked up once for each connection and the connection goes to the address that was judged, so a name that
answers differently the second time gains nothing. Redirects are new requests and are judged again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from sidechat_web.core.errors import SidechatError

if TYPE_CHECKING:
    import httpx2

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class NotPublic(SidechatError):
    """A URL that is malformed, or leads to this machine or a private network."""

    code = "bad_url"


def check_url(url: str) -> str:
    """`url` without surrounding space. Raises NotPublic for one that only the operator may configure.

    A form's check: the connection is judged again when it is made, by `async_transport` or `transport`.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise NotPublic("this is not a URL") from None
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() or not c.isprintable() for c in url):
        raise NotPublic("expected https://HOST… or http://HOST…")
    if parts.username is not None or parts.password is not None:
        raise NotPublic("a URL must not contain a name or a password")
    judged(host, _look_up(host, port or 443))
    return url


def is_public(address: Address) -> bool:
    """Whether the address belongs to the public internet, through whatever wrapping it is written in."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            inner = ipaddress.IPv4Address(address.packed[-4:])
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def judged(host: str, addresses: Iterable[str]) -> str:
    """The first of `addresses`. Raises NotPublic unless there is one and every one is public."""
    found = list(addresses)
    if not found:
        raise NotPublic(f"the name {host!r} is not known")
    if not all(is_public(ipaddress.ip_address(address.partition("%")[0])) for address in found):
        raise NotPublic(f"{host!r} is on this machine or in a private network, where only the operator may point")
    return found[0]


def async_transport() -> httpx2.AsyncBaseTransport:
    """A transport that connects to public addresses only; for the `transport` of an httpx2 client."""
    return _transports()[0]()  # type: ignore[no-any-return]


def transport() -> httpx2.BaseTransport:
    """The same, for a blocking client."""
    return _transports()[1]()  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _transports() -> tuple[Any, Any]:
    import httpx2  # heavy, and only needed where somebody configured a server of their own

    class AsyncPublicTransport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            addresses = await asyncio.to_thread(_look_up, request.url.host, request.url.port or 443)
            return await super().handle_async_request(_bound(request, addresses))

    class PublicTransport(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            return super().handle_request(_bound(request, _look_up(request.url.host, request.url.port or 443)))

    return AsyncPublicTransport, PublicTransport


def _bound(request: httpx2.Request, addresses: list[str]) -> httpx2.Request:
    """`request`, going to the judged address under its own name. Raises httpx2.ConnectError."""
    import httpx2

    host = request.url.host
    try:
        address = judged(host, addresses)
    except NotPublic as e:
        raise httpx2.ConnectError(e.message, request=request) from None
    extensions = {**request.extensions, "sni_hostname": host}
    headers = httpx2.Headers(request.headers)  # with the Host that the URL named
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=headers,
        stream=request.stream,
        extensions=extensions,
    )


def _look_up(host: str, port: int) -> list[str]:
    """The addresses of `host`; empty where it is not known."""
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []
