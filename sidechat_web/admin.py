"""The admin pages: users, tokens, sessions and how their last turns ended, the audit log.

An admin runs the place and does not read along: no title, message or system prompt of anybody is shown here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import User
from django.contrib.auth.views import LogoutView, redirect_to_login
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, reverse
from django.utils.html import format_html

from sidechat_web.accounts import audit, sign_ins
from sidechat_web.accounts.models import ApiToken, AuditEntry
from sidechat_web.render import words
from sidechat_web.runtime import commands, live
from sidechat_web.storage.ids import now_ms
from sidechat_web.storage.models import Session

_NOT_HERE = ("view_on_site", "autocomplete", "password_change_done")


class Site(admin.AdminSite):
    """For admins; everybody else who is signed in finds nothing here."""

    site_header = site_title = "Sidechat"
    index_title = "Administration"
    site_url = "/"
    final_catch_all_view = False
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        inner = super().admin_view(view, cacheable)

        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not self.has_permission(request):
                raise Http404("There is nothing here.")
            return cast(HttpResponse, inner(request, *args, **kwargs))

        return checked

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one way to sign in, and it is not here."""
        if not request.user.is_authenticated:
            return redirect_to_login(reverse("admin:index"))
        return self._elsewhere(request, "admin:index")

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return LogoutView.as_view(next_page=settings.LOGIN_URL)(request)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return self._elsewhere(request, "account")

    def _elsewhere(self, request: HttpRequest, name: str) -> HttpResponse:
        if not self.has_permission(request):
            raise Http404("There is nothing here.")
        return redirect(name)

    def get_urls(self) -> list[URLResolver | URLPattern]:
        return [url for url in super().get_urls() if getattr(url, "name", None) not in _NOT_HERE]


site = Site(name="admin")


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that are looked at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(User, site=site)
class UserAdmin(DjangoUserAdmin):  # type: ignore[type-arg]
    """Roles and whether somebody may sign in. Who comes is invited; who goes is made inactive, and loses nothing."""

    list_display = ("username", "is_superuser", "is_active", "last_login", "date_joined")
    list_filter = ("is_superuser", "is_active")
    search_fields = ("username",)
    fieldsets = ((None, {"fields": ("username", "password")}), (None, {"fields": ("is_superuser", "is_active")}))
    filter_horizontal = ()

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Nobody takes their own rights away: somebody must be left who has them."""
        return ("username", "is_superuser", "is_active") if obj == request.user else ("username",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: User, form: ModelForm[User], change: bool) -> None:
        obj.is_staff = obj.is_superuser
        super().save_model(request, obj, form, change)
        if "is_superuser" in form.changed_data or "is_active" in form.changed_data:
            actor = cast(User, request.user)
            audit.record(actor, request, "user.changed", obj, admin=obj.is_superuser, active=obj.is_active)
        live.ring("", "access")

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        response = super().user_change_password(request, id, form_url)
        if request.method == "POST" and response.status_code == 302:
            user = User.objects.get(pk=id)
            audit.record(cast(User, request.user), request, "user.password", user)
            sign_ins.end_others(user, request.session.session_key)
            live.ring("", "access")
        return response


@admin.register(ApiToken, site=site)
class TokenAdmin(ReadOnly):
    list_display = ("name", "user", "scope", "made", "used", "expires", "is_revoked")
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    fields = ("name", "user", "scope", "made", "used", "expires", "is_revoked")
    actions = ("revoke",)

    @admin.display(description="made")
    def made(self, row: ApiToken) -> str:
        return _when(row.created_at)

    @admin.display(description="last used")
    def used(self, row: ApiToken) -> str:
        return _when(row.last_used_at)

    @admin.display(description="expires")
    def expires(self, row: ApiToken) -> str:
        return _when(row.expires_at)

    @admin.display(description="revoked", boolean=True)
    def is_revoked(self, row: ApiToken) -> bool:
        return row.revoked_at is not None

    @admin.action(description="Revoke", permissions=["view"])
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiToken]) -> None:
        for row in rows.filter(revoked_at=None).select_related("user"):
            audit.record(cast(User, request.user), request, "token.revoked", row.pk, user=row.user.get_username())
        rows.filter(revoked_at=None).update(revoked_at=now_ms())
        live.ring("", "access")


class LastTurn(admin.SimpleListFilter):
    """How the last turn ended, or that one runs."""

    title = "last turn"
    parameter_name = "last"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("failed", "failed"), ("running", "running"), ("waiting", "waits for its user")]

    def queryset(self, request: HttpRequest, rows: QuerySet[Session]) -> QuerySet[Session]:
        match self.value():
            case "failed":
                return rows.filter(open_turn=None, last_reason__kind="error")
            case "running":
                return rows.filter(waiting=False).exclude(open_turn=None)
            case "waiting":
                return rows.filter(waiting=True).exclude(open_turn=None)
        return rows


@admin.register(Session, site=site)
class SessionAdmin(ReadOnly):
    list_display = ("id", "owner", "kind", "state", "turns", "ended", "tokens", "updated")
    list_filter = (LastTurn, "kind", "archived")
    list_select_related = ("owner",)
    search_fields = ("id", "owner__username")
    show_full_result_count = False
    fields = ("id", "owner", "kind", "parent_id", "state", "turns", "ended", "tokens", "made", "updated", "deleted")
    ordering = ("-updated_at",)
    actions = ("stop",)

    @admin.display(description="state")
    def state(self, row: Session) -> str:
        return "deleted" if row.deleted_at else row.status

    @admin.display(description="turns")
    def turns(self, row: Session) -> int:
        return row.last_turn

    @admin.display(description="last turn ended")
    def ended(self, row: Session) -> str:
        reason = row.last_reason or {}
        error = reason.get("error") or {}
        return format_html("{} {}", reason.get("kind", "–"), error.get("code", ""))

    @admin.display(description="tokens")
    def tokens(self, row: Session) -> str:
        return f"{row.input_tokens + row.cache_read_tokens:,} in, {row.output_tokens:,} out"

    @admin.display(description="made")
    def made(self, row: Session) -> str:
        return _when(row.created_at)

    @admin.display(description="updated", ordering="updated_at")
    def updated(self, row: Session) -> str:
        return _when(row.updated_at)

    @admin.display(description="deleted")
    def deleted(self, row: Session) -> str:
        return _when(row.deleted_at)

    @admin.action(description="Stop the running turn", permissions=["view"])
    def stop(self, request: HttpRequest, rows: QuerySet[Session]) -> None:
        for row in rows.exclude(open_turn=None):
            commands.stop(row)
            audit.record(cast(User, request.user), request, "turn.stopped", row.pk)


@admin.register(AuditEntry, site=site)
class AuditAdmin(ReadOnly):
    list_display = ("when", "by", "action", "target", "detail", "address")
    list_filter = ("action",)
    search_fields = ("actor", "target")
    fields = ("when", "by", "action", "target", "detail", "address")
    ordering = ("-at",)

    @admin.display(description="when", ordering="at")
    def when(self, row: AuditEntry) -> str:
        return _when(row.at)

    @admin.display(description="by", ordering="actor")
    def by(self, row: AuditEntry) -> str:
        return row.actor or "command line"


def _when(ms: int | None) -> str:
    return f"{words.moment(ms):%Y-%m-%d %H:%M}" if ms else "–"
