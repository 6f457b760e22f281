from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "sidechat_web.runtime"
    label = "runtime"

    def ready(self) -> None:
        from sidechat_web.storage import log

        from . import approvals, dispatch, hooks, jobs, live, observing
        from .tools import builtin, gates, registry, territory
        from .tools.mcp import source as mcp

        gates.pre_execute += [approvals.gate, territory.gate]
        registry.sources += [builtin.source, mcp.source]
        hooks.services.append(mcp.serve)
        if dispatch.by_jobs():
            jobs.register()

        log.on_events(observing.appended)
        log.on_append(lambda session_id, _length, chunks: live.ring(session_id, "chunks" if chunks else "log"))
