"""Whether this process lives, and whether it can serve. Open to everyone: nothing of any user is said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from . import errors

logger = logging.getLogger(__name__)
_REDIS_SECONDS = 2


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while the process answers at all."""
    return JsonResponse({"status": "ok"})


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when everything that a request needs answers, else 503 with what does not."""
    down = [name for name, check in _checks() if not check()]
    if down:
        return errors.answer(503, message=f"not ready: {', '.join(down)}")
    return JsonResponse({"status": "ready"})


def _checks() -> Iterator[tuple[str, Callable[[], bool]]]:
    yield "database", _database_answers
    if settings.REDIS_URL:
        yield "redis", _redis_answers


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM storage_session WHERE id = ''")
    except DatabaseError:
        logger.exception("the database does not answer")
        return False
    return True


def _redis_answers() -> bool:
    import redis

    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
        ) as client:
            return bool(client.ping())
    except (redis.RedisError, ValueError):
        logger.exception("Redis does not answer")
        return False
