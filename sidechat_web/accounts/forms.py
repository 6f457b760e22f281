"""What the account pages take."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from . import users
from .models import ApiToken

DAYS = [(30, "30 days"), (90, "90 days"), (365, "A year"), (0, "Never")]


class TwicePasswordForm(forms.Form):
    """A new password, typed twice."""

    password = forms.CharField(strip=False, max_length=users.MAX_PASSWORD_CHARS)
    again = forms.CharField(strip=False, max_length=users.MAX_PASSWORD_CHARS)

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if "password" in found and "again" in found and found["password"] != found["again"]:
            raise ValidationError("The two passwords differ.")
        return found


class JoinForm(TwicePasswordForm):
    name = forms.CharField(max_length=150)


class PasswordForm(TwicePasswordForm):
    """The present password, and a new one."""

    old = forms.CharField(strip=False, max_length=users.MAX_PASSWORD_CHARS)

    def __init__(self, user: User, *args: Any) -> None:
        super().__init__(*args)
        self._user = user

    def clean_old(self) -> str:
        if not self._user.check_password(old := self.cleaned_data["old"]):
            raise ValidationError("The present password is not right.")
        return str(old)

    def clean(self) -> dict[str, Any]:
        found = super().clean()
        if "password" in found:
            users.check_password(found["password"], self._user)
        return found


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, error_messages={"required": "A token needs a name."})
    scope = forms.ChoiceField(choices=ApiToken.Scope.choices)
    days = forms.TypedChoiceField(choices=DAYS, coerce=int)


class InvitationForm(forms.Form):
    admin = forms.BooleanField(required=False)


class RowForm(forms.Form):
    """The row that a button stands beside."""

    row = forms.IntegerField(min_value=1, max_value=2**63 - 1)
