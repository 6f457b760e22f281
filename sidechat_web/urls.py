"""Every HTTP route."""

from django.urls import URLPattern, URLResolver, include, path

from sidechat_web import admin

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("sidechat_web.api.urls")),
    path("accounts/", include("sidechat_web.accounts.urls")),
    path("admin/", admin.site.urls),
    path("", include("sidechat_web.pages.urls")),
]
