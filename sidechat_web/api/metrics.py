"""Figures for Prometheus: there only where SIDECHAT_METRICS_TOKEN is set, and for whoever shows it."""

from __future__ import annotations

import resource
from hmac import compare_digest

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from sidechat_web.runtime.observing import metrics
from sidechat_web.storage.models import QueueItem, Runner, Session


@login_not_required
@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """This process's figures, and what waits in the database."""
    if not settings.SIDECHAT_METRICS_TOKEN:
        raise Http404("There is nothing here.")
    shown = request.headers.get("Authorization", "")
    if not compare_digest(shown.encode(), f"Bearer {settings.SIDECHAT_METRICS_TOKEN}".encode()):
        return HttpResponse("a token is needed\n", status=401, headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(metrics.exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")


metrics.Gauge(
    "sidechat_open_turns",
    "Turns that run or wait for their user, in all processes.",
    lambda: Session.objects.exclude(open_turn=None).filter(deleted_at=None).count(),
)
metrics.Gauge(
    "sidechat_queued_messages",
    "Accepted messages that have not started, in all processes.",
    lambda: QueueItem.objects.filter(seq=None).count(),
)
metrics.Gauge("sidechat_runners", "Processes that run turns.", lambda: Runner.objects.count())
metrics.Gauge(
    "sidechat_process_cpu_seconds",
    "Processor time of this process.",
    lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
)
metrics.Gauge(
    "sidechat_process_peak_resident_bytes",
    "Most memory that this process held.",
    lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
)
