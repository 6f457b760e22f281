"""The ASGI application: HTTP by Django, sockets by Channels."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sidechat_web.settings")

from django.core.asgi import get_asgi_application

application = get_asgi_application()
