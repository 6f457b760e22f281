"""Every HTTP route."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.decorators.http import require_safe

from sidechat_web import admin


@require_safe
@login_not_required
def icon(request: HttpRequest) -> HttpResponse:
    """Where the icon is, for browsers that ask for it on pages that do not say."""
    return redirect(static("icon.svg"))


urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("sidechat_web.api.urls")),
    path("favicon.ico", icon, name="icon"),
    path("accounts/", include("sidechat_web.accounts.urls")),
    path("admin/", admin.site.urls),
    path("", include("sidechat_web.pages.urls")),
]
