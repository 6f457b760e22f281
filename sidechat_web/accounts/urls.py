"""Signing in and out, and joining."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from . import views

urlpatterns = [
    path("login/", views.SignInView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="/accounts/login/"), name="logout"),
    path("join/<str:token>/", views.join, name="join"),
]
