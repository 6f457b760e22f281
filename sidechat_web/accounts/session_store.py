"""Browser sessions in the database under a hash of their key: who reads the table cannot sign in with it."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone


def hashed(session_key: str | None) -> str:
    """The name of a session in the database; empty for none."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:40] if session_key else ""


class SessionStore(db.SessionStore):
    """Django's store, whose cookie has the key and whose table has its hash."""

    def _get_session_from_db(self) -> Session | None:
        found = Session.objects.filter(session_key=hashed(self.session_key), expire_date__gt=timezone.now()).first()
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        return super().exists(hashed(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row = cast(Session, super().create_model_instance(data))
        row.session_key = hashed(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(hashed(key))
