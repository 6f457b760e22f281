"""Browser sessions in the database under a hash of their key: who reads the table cannot sign in with it."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone


def hashed(session_key: str | None) -> str:
    """The name of a session in the database; empty for none."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:40] if session_key else ""


class SessionStore(db.SessionStore):
    """Django's store, whose cookie has the key and whose table has its hash."""

    def _get_session_from_db(self) -> Session | None:
        return self._found(_living(self.session_key).first())

    async def _aget_session_from_db(self) -> Session | None:
        return self._found(await _living(self.session_key).afirst())

    def _found(self, row: Session | None) -> Session | None:
        if row is None:
            self._session_key = None
        return row

    def exists(self, session_key: str) -> bool:
        return super().exists(hashed(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(hashed(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        return _under_hash(super().create_model_instance(data))

    async def acreate_model_instance(self, data: dict[str, Any]) -> Session:
        return _under_hash(await super().acreate_model_instance(data))

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(hashed(key))

    async def adelete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            await super().adelete(hashed(key))


def _living(session_key: str | None) -> QuerySet[Session]:
    return Session.objects.filter(session_key=hashed(session_key), expire_date__gt=timezone.now())


def _under_hash(row: Any) -> Session:
    row.session_key = hashed(row.session_key)
    return cast(Session, row)
