"""Signing in, and joining by an invitation: the pages of those who are not signed in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from django.views.defaults import permission_denied

from sidechat_web.core.errors import SidechatError

from . import audit, doorkeeper, invitations
from .addresses import client_address
from .forms import JoinForm


@method_decorator(login_not_required, name="dispatch")
class SignInView(LoginView):
    """Name and password; after too many wrong ones the door stays closed for a while, even to the right one."""

    http_method_names = ["get", "head", "options", "post"]
    template_name = "accounts/login.html"
    next_page = "/"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        self.name, self.address = request.POST.get("username", "")[:150], client_address(request)
        if seconds := doorkeeper.wait_seconds(self.name, self.address):
            context = self.get_context_data(form=AuthenticationForm(request), wait_minutes=-(-seconds // 60))
            response = render(request, self.template_name, context, status=429)
            response["Retry-After"] = str(seconds)
            return response
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        doorkeeper.passed(self.name, self.address)
        return super().form_valid(form)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        doorkeeper.failed(self.name, self.address)
        return super().form_invalid(form)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that did not come from a page of ours, or from one that is too old."""
    return permission_denied(request, PermissionDenied("This page was open for too long. Reload it, then try again."))


@login_not_required
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Choose a name and a password: the account that an invitation is for."""
    if invitations.find(token) is None:
        raise Http404("This invitation was used, withdrawn or has expired.")
    form = JoinForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user = invitations.accept(token, form.cleaned_data["name"], form.cleaned_data["password"])
        except ValidationError as e:
            form.add_error(None, ValidationError(e.messages))
        except SidechatError as e:
            raise Http404(e.message) from None
        else:
            login(request, user, backend="django.contrib.auth.backends.ModelBackend")
            audit.record(user, request, "user.joined", user.get_username(), admin=user.is_superuser)
            return redirect("/")
    return render(request, "accounts/join.html", {"form": form}, status=422 if form.errors else 200)
