"""Where a request comes from."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The peer, or what the one proxy in front says; empty where it is no address. An IPv6 one stands for its /64."""
    named = request.META.get("REMOTE_ADDR", "")
    if settings.SIDECHAT_PROXY != "off":
        named = request.headers.get("X-Forwarded-For", named).rpartition(",")[2].strip()
    try:
        address = ipaddress.ip_address(named)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False).network_address)
    return str(address)


def is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)
