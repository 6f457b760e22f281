from django.apps import AppConfig


class SidechatConfig(AppConfig):
    name = "sidechat_web.runtime.sidechat"
    label = "sidechat"
