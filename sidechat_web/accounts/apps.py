from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "sidechat_web.accounts"
    label = "accounts"
