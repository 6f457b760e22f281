"""Who is signed in without a password: a browser on this machine, in local mode, and nobody else."""

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import DisallowedHost
from django.http import HttpResponse
from django.test import RequestFactory

from sidechat_web.accounts import LocalUserMiddleware, local_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def local_mode(settings):
    settings.SIDECHAT_LOCAL_MODE = True
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]


def visit(path="/", **extra):
    """The request after the middleware, and the response."""
    extra = {"HTTP_HOST": "localhost", "REMOTE_ADDR": "127.0.0.1", **extra}
    request = RequestFactory().get(path, **extra)
    request.user = AnonymousUser()
    response = SessionMiddleware(LocalUserMiddleware(lambda r: HttpResponse()))(request)
    return request, response


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_browser_on_this_machine_is_signed_in_with_a_cookie(address, settings):
    request, response = visit(REMOTE_ADDR=address)
    assert request.user == local_user()
    assert response.cookies[settings.SESSION_COOKIE_NAME]["httponly"]


@pytest.mark.parametrize("address", ["10.0.0.7", "::2", "", "nonsense", "::ffff:10.0.0.7"])
def test_other_machines_are_not(address):
    request, response = visit(REMOTE_ADDR=address)
    assert request.user.is_anonymous
    assert not response.cookies


@pytest.mark.parametrize("header", ["HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP"])
def test_requests_through_a_proxy_are_not(header):
    assert visit(**{header: "10.0.0.7"})[0].user.is_anonymous


def test_name_that_is_not_ours_is_refused():
    with pytest.raises(DisallowedHost):
        visit(HTTP_HOST="evil.example")


def test_nobody_is_signed_in_outside_local_mode(settings):
    settings.SIDECHAT_LOCAL_MODE = False
    assert visit()[0].user.is_anonymous


@pytest.mark.parametrize("path", ["/api/sessions", "/healthz", "/readyz"])
def test_programs_get_no_cookie(path):
    request, response = visit(path)
    assert request.user.is_anonymous
    assert not response.cookies
