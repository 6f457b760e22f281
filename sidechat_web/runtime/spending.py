"""What a session's own requests cost, where prices are known.

Prices may rise with the size of a request, so each is priced by itself; a log only grows, so each is priced once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Event
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .providers import catalog

_MOST: Final = 4096  # sessions whose sums are kept


@dataclass(frozen=True, slots=True)
class Spent:
    """US dollars of the requests with a known price; `whole` says that these are all that used tokens."""

    dollars: float = 0.0
    priced: int = 0
    whole: bool = True


_sums: dict[str, tuple[int, Spent]] = {}  # by session: up to which seq, and what


def spent(session: Session) -> Spent:
    after, total = _sums.get(session.pk, (session.own_from - 1, Spent()))
    for event in reading.events(session, after=after, types=[ev.ASSISTANT_MESSAGE]):
        after, total = event.seq, _plus(total, event)
    if len(_sums) >= _MOST:
        _sums.clear()
    _sums[session.pk] = after, total
    return total


def _plus(total: Spent, event: Event) -> Spent:
    usage = event.data.get("usage")
    if not usage or not isinstance(usage, dict):
        return total
    cost = _cost(event, {key: count for key, count in usage.items() if type(count) is int and count >= 0})
    if cost is None:
        return Spent(total.dollars, total.priced, False)
    return Spent(total.dollars + cost, total.priced + 1, total.whole)


def _cost(event: Event, usage: dict[str, int]) -> float | None:
    source = (event.message or {}).get("source")
    config = source if isinstance(source, dict) else {}
    provider, model = config.get("provider"), config.get("model")
    if not isinstance(provider, str) or not isinstance(model, str):
        return None
    return catalog.cost({"provider": provider, "model": model}, usage)
