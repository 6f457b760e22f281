from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "sidechat_web.accounts"
    label = "accounts"

    def ready(self) -> None:
        from . import sign_ins

        sign_ins.install()
