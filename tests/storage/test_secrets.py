"""Secrets at rest: unreadable without the key, readable through a rotation."""

import pytest
from django.db import connection, models
from hypothesis import given
from hypothesis import strategies as st

from sidechat_web.storage import secrets
from sidechat_web.storage.secrets import SecretField, SecretUnreadable, decrypt, encrypt

OLD, NEW = "an old key that is long enough, 1", "a new key that is long enough, 22"


@pytest.fixture(autouse=True)
def key(settings):
    settings.SECRET_KEY = OLD
    settings.SECRET_KEY_FALLBACKS = []


@given(st.text())
def test_text_comes_back(text):
    assert decrypt(encrypt(text)) == text


def test_bytes_do_not_show_the_text_and_differ_each_time():
    first, second = encrypt("sk-planted-0123456789"), encrypt("sk-planted-0123456789")
    assert b"planted" not in first
    assert first != second


def test_another_key_or_a_changed_byte_reads_nothing(settings):
    secret = encrypt("sk-1")
    with pytest.raises(SecretUnreadable):
        decrypt(secret[:-5] + b"AAAA=")
    settings.SECRET_KEY = NEW
    with pytest.raises(SecretUnreadable):
        decrypt(secret)


@pytest.fixture
def holder(transactional_db):
    """A table with a secret column."""

    class Holder(models.Model):
        name = models.TextField()
        key = SecretField(null=True)

        class Meta:
            app_label = "storage"

    with connection.schema_editor() as editor:
        editor.create_model(Holder)
    yield Holder
    with connection.schema_editor() as editor:
        editor.delete_model(Holder)
    del secrets.apps.all_models["storage"]["holder"]
    secrets.apps.clear_cache()


def test_rotation_moves_every_stored_secret_to_the_present_key(holder, settings):
    row, empty = holder.objects.create(name="a", key=encrypt("sk-1")), holder.objects.create(name="b")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [OLD]
    assert decrypt(holder.objects.get(pk=row.pk).key) == "sk-1"
    assert secrets.rotate_all() == 1
    settings.SECRET_KEY_FALLBACKS = []
    assert decrypt(holder.objects.get(pk=row.pk).key) == "sk-1"
    assert holder.objects.get(pk=empty.pk).key is None


def test_rotation_without_the_old_key_changes_nothing(holder, settings):
    readable = holder.objects.create(name="a", key=encrypt("a"))
    holder.objects.create(name="b", key=encrypt("b"))
    settings.SECRET_KEY = NEW
    holder.objects.filter(pk=readable.pk).update(key=encrypt("a"))
    before = list(holder.objects.order_by("pk").values_list("key", flat=True))
    with pytest.raises(SecretUnreadable):
        secrets.rotate_all()
    assert list(holder.objects.order_by("pk").values_list("key", flat=True)) == before
