"""A merge on its way: what a click asked for, until its note stands in the parent."""

from __future__ import annotations

from django.db import models

from sidechat_web.storage.ids import new_id, now_ms
from sidechat_web.storage.models import Injection, Session


class Merge(models.Model):
    """One note into `parent` out of its `sources`. `key` settles races: of a key at most one merge is live.

    A submitted merge's fate is its injection's: this row keeps no second copy of it.
    """

    class State(models.TextChoices):
        DRAFTING = "drafting"  # a side is asked for a handback
        SUBMITTED = "submitted"  # handed to the injection
        FAILED = "failed"
        CANCELLED = "cancelled"
        RETRACTED = "retracted"

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    parent = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="merges_in")
    key = models.CharField(max_length=64)
    into_turn = models.BooleanField(default=False)
    state = models.CharField(max_length=12, choices=State.choices, default=State.DRAFTING)
    error = models.JSONField(null=True)  # {code, message, side?}
    truncated = models.BooleanField(default=False)
    edited = models.BooleanField(default=False)
    injection = models.ForeignKey(Injection, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=models.Q(state__in=["drafting", "submitted"]), name="one_live_merge_per_key"
            )
        ]

    @property
    def public_state(self) -> str:
        """`drafting`, `pending`, `delivered`, `failed`, `cancelled` or `retracted`."""
        if self.state == self.State.SUBMITTED and self.injection is not None:
            return self.injection.state
        return self.state

    @property
    def seq(self) -> int | None:
        return self.injection.seq if self.injection is not None else None

    @property
    def side_ids(self) -> list[str]:
        """The sides that the note is out of, in its order."""
        return [source.side_id for source in self.sources.all()]


class Source(models.Model):
    """A side that a merge's note is out of, and how far the note covers it: up to the `turn/end` at `through_seq`."""

    merge = models.ForeignKey(Merge, on_delete=models.CASCADE, related_name="sources")
    side = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="merges_out")
    through_seq = models.BigIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["merge", "side"], name="one_source_per_side")]
