from django.apps import AppConfig


class StorageConfig(AppConfig):
    name = "sidechat_web.storage"
    label = "storage"
