"""Tokens for programs. Users are Django's own."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from sidechat_web.storage.ids import now_ms


class ApiToken(models.Model):
    """A bearer token of one user. Only its hash is kept; times are epoch ms, null = never."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)  # sha256 of the token, hex
    created_at = models.BigIntegerField(default=now_ms)
    last_used_at = models.BigIntegerField(null=True)
    expires_at = models.BigIntegerField(null=True)
    revoked_at = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.name
