"""The JSON API under `/api/`, and the two operations endpoints beside it."""

from django.urls import path

from . import (
    approvals,
    auth,
    catalog,
    errors,
    events,
    forks,
    health,
    idempotency,
    logs,
    lossless,
    merges,
    messages,
    metrics,
    queued,
    requests,
    sessions,
    shares,
    sides,
    turns,
)
from .openapi import Api

api = Api(
    title="Sidechat",
    version="1",
    description="Agent sessions, their side sessions and the notes that these merge back.",
    auth=auth.Bearer(),
    parser=lossless.StrictParser(),
    urls_namespace="api",
)
errors.install(api)
api.add_decorator(idempotency.once_per_key)
routers = (sessions, events, messages, requests, queued, turns, forks, sides, merges, approvals, shares, logs, catalog)
for module in routers:
    api.add_router("", module.router)

urlpatterns = [
    path("api/", api.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics_page, name="metrics"),
]
