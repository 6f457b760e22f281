from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "sidechat_web.runtime"
    label = "runtime"
