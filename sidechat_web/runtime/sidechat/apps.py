from django.apps import AppConfig


class SidechatConfig(AppConfig):
    name = "sidechat_web.runtime.sidechat"
    label = "sidechat"

    def ready(self) -> None:
        from sidechat_web.runtime import hooks
        from sidechat_web.runtime.tools import gates

        from . import merge_back, side

        gates.pre_execute.append(side.gate)
        hooks.fork_preludes.append(side.lift_of_fork)
        hooks.turn_ended.append(merge_back.turn_ended)
        hooks.recover.append(merge_back.recover)
        hooks.deleted.append(merge_back.session_deleted)
