"""What the pages' forms take."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from sidechat_web.runtime.commands import MAX_TEXT_CHARS, MAX_TITLE_CHARS
from sidechat_web.storage.ids import is_id


class QuotesField(forms.CharField):
    """Quotes as the composer sends them: `[{session, seq, text, comment?}]` as JSON."""

    def to_python(self, value: Any) -> Any:
        if not (text := super().to_python(value)):
            return []
        try:
            return [_quote(one) for one in json.loads(text)]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise forms.ValidationError("The quotes did not arrive whole. Reload the page and try again.") from None


def _quote(one: dict[str, Any]) -> dict[str, Any]:
    """Raises what malformed JSON raises."""
    found = {"session": one["session"], "seq": one["seq"], "text": one["text"], "comment": one.get("comment", "")}
    if type(found["seq"]) is not int or not 0 <= found["seq"] < 2**53 or not is_id(found["session"]):
        raise ValueError("not an event of a session")
    for name in ("text", "comment"):
        if "\0" in found[name] or found[name] != found[name].encode("utf-8", "ignore").decode():
            raise ValueError("not text")
    return found


class MessageForm(forms.Form):
    """A message, and the key under which it is accepted once."""

    text = forms.CharField(max_length=MAX_TEXT_CHARS, strip=False, required=False)
    mode = forms.ChoiceField(choices=[("queue", ""), ("steer", "")], required=False)
    key = forms.CharField(max_length=64, required=False)
    quotes = QuotesField(required=False)

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"].replace("\r\n", "\n")
        return text

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if not self.errors and not data["text"].strip() and not data["quotes"]:
            self.add_error("text", "Write something first.")
        return data


class SideForm(MessageForm):
    """The first message of a side; `at` is the event that it is asked about."""

    at = forms.IntegerField(min_value=0, required=False)


class NewSessionForm(MessageForm):
    model = forms.CharField(max_length=200, required=False)
    cwd = forms.CharField(max_length=4096, required=False)


class NoteForm(forms.Form):
    """A note to merge; without a text the side is asked for one."""

    text = forms.CharField(strip=True, required=False, max_length=MAX_TEXT_CHARS)
    written = forms.BooleanField(required=False)
    steer = forms.BooleanField(required=False)


class SeqForm(forms.Form):
    seq = forms.IntegerField(min_value=0)


class SettingsForm(forms.Form):
    title = forms.CharField(max_length=MAX_TITLE_CHARS, error_messages={"required": "A session needs a title."})
    model = forms.CharField(max_length=200, required=False)
    pinned = forms.BooleanField(required=False)
    archived = forms.BooleanField(required=False)


class RetryForm(forms.Form):
    text = forms.CharField(max_length=MAX_TEXT_CHARS, strip=False, required=False)
    key = forms.CharField(max_length=64, required=False)


class DeleteForm(forms.Form):
    sides = forms.ChoiceField(choices=[("delete", ""), ("keep", "")], required=False)


class PlaceForm(forms.Form):
    position = forms.IntegerField(min_value=0, max_value=1_000_000)


class QueuedForm(forms.Form):
    text = forms.CharField(
        max_length=MAX_TEXT_CHARS, strip=False, error_messages={"required": "Write something first."}
    )


def first_error(form: forms.Form) -> str:
    """The first thing that is wrong with a form, in a sentence."""
    return str(next(iter(form.errors.values()))[0])
