"""Tokens of programs, sign-ins of browsers, invitations, and what admins did. Users are Django's own.

Times are epoch ms. An admin is a user with `is_superuser`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from sidechat_web.storage.ids import now_ms


class ApiToken(models.Model):
    """A bearer token of one user. Only its hash is kept; of the times, null = never."""

    class Scope(models.TextChoices):
        READ = "read"
        WRITE = "write"  # and read

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)  # sha256 of the token, hex
    scope = models.CharField(max_length=8, choices=Scope.choices, default=Scope.WRITE)
    created_at = models.BigIntegerField(default=now_ms)
    last_used_at = models.BigIntegerField(null=True)
    expires_at = models.BigIntegerField(null=True)
    revoked_at = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.name


class SignIn(models.Model):
    """A browser that signed in with a password. `session_key` is its session's, hashed; empty once it has ended."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40, db_index=True)
    address = models.CharField(max_length=64)
    agent = models.CharField(max_length=300)
    created_at = models.BigIntegerField(default=now_ms)
    seen_at = models.BigIntegerField(default=now_ms)


class SignInFailure(models.Model):
    """A wrong name or password: too many of them from one place close the door for a while."""

    name = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    at = models.BigIntegerField(default=now_ms, db_index=True)


class Invitation(models.Model):
    """A link with which one person makes an account. Only its token's hash is kept."""

    digest = models.CharField(max_length=64, unique=True)
    admin = models.BooleanField(default=False)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.BigIntegerField(default=now_ms)
    expires_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)  # used, or withdrawn where `user` is null
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")


class AuditEntry(models.Model):
    """Something that changed who may do what. Entries are only added."""

    at = models.BigIntegerField(default=now_ms, db_index=True)
    actor = models.CharField(max_length=150)  # a name, so that it outlives the user; empty = the command line
    action = models.CharField(max_length=40)
    target = models.CharField(max_length=200)
    detail: Any = models.JSONField(default=dict)
    address = models.CharField(max_length=64, default="", blank=True)

    class Meta:
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor or 'command line'}: {self.action} {self.target}"
