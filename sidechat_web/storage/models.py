"""The mirror of session logs: rows of immutable lines, and beside them what is not record.

An `Event` row holds one or more lines of a log verbatim. Everything on `Session` that changes is
either the log's head, updated by the log writer in the same transaction, or presentation state.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from sidechat_web.core.head import Head

from .ids import new_id, now_ms
from .secrets import SecretField


class Session(models.Model):
    """One log. `base` is how many leading events stand in other sessions' rows (see `Segment`);
    `seed_length` is what the header says: an imported child has its seed in rows of its own."""

    class Kind(models.TextChoices):
        MAIN = "main"
        SIDE = "side"
        FORK = "fork"
        MIRROR = "mirror"

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    log_id = models.TextField()
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.MAIN)
    # header: the line verbatim for imported logs, empty for our own (built from the fields)
    header_line = models.BinaryField(default=b"")
    created_at = models.BigIntegerField(default=now_ms)
    cwd = models.TextField(null=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    parent_log_id = models.TextField(null=True)
    seed_length = models.BigIntegerField(null=True)
    origin = models.TextField(null=True)
    delegation_depth = models.IntegerField(default=0)
    base = models.BigIntegerField(default=0)
    read_only = models.BooleanField(default=False)  # another program writes this log
    imported = models.BooleanField(default=False)
    foreign_length = models.BigIntegerField(default=0)  # how many leading events another program wrote

    # head of the log, written by storage.log only
    next_seq = models.BigIntegerField(default=0)
    last_time = models.BigIntegerField(default=0)
    open_turn = models.BigIntegerField(null=True)
    stable = models.BigIntegerField(default=0)
    last_turn = models.BigIntegerField(default=0)
    last_reason = models.JSONField(null=True)

    # pinned at creation: {"header": {"config": {provider, model, …}, "system"?, "tools"?}}
    settings = models.JSONField(default=dict)

    # presentation
    title = models.TextField(default="")
    updated_at = models.BigIntegerField(default=now_ms)
    archived = models.BooleanField(default=False)
    pinned = models.BooleanField(default=False)
    unread = models.BooleanField(default=False)
    deleted_at = models.BigIntegerField(null=True)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cache_read_tokens = models.BigIntegerField(default=0)
    reasoning_tokens = models.BigIntegerField(default=0)
    context_used = models.BigIntegerField(default=0)

    # execution
    runner = models.CharField(max_length=64, default="")  # who runs the open turn
    stop_requested = models.BooleanField(default=False)
    compact_requested = models.BooleanField(default=False)
    waiting = models.BooleanField(default=False)  # the open turn asks the user something

    # whom `access` fetched this row for: may they write to it; may they not even see it (a parent)
    may_write: bool = True
    hidden: bool = False

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "log_id"], condition=models.Q(deleted_at=None), name="one_log_id_per_owner"
            )
        ]
        indexes = [
            models.Index(fields=["owner", "-updated_at"]),
            models.Index(fields=["open_turn"], condition=models.Q(open_turn__isnull=False), name="open_turns"),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def head(self) -> Head:
        return Head(self.next_seq, self.last_time, self.open_turn, self.stable, self.last_turn, self.last_reason)

    @property
    def status(self) -> str:
        """`idle`, `running`, or `waiting` for the user's decision."""
        if self.open_turn is None or self.left_open:
            return "idle"
        return "waiting" if self.waiting else "running"

    @property
    def left_open(self) -> bool:
        """Whether another program left its last turn unfinished; where it still writes the log, it may go on."""
        return self.open_turn is not None and not self.read_only and self.stable < self.foreign_length

    @property
    def own_from(self) -> int:
        """The seq from which on events are this session's own, not inherited."""
        return self.seed_length or 0


class Share(models.Model):
    """Someone else's right to a session and to the sides below it. An ended one stays: it says who could see what."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="shares")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    write = models.BooleanField(default=False)
    created_at = models.BigIntegerField(default=now_ms)
    ended_at = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "user"], name="one_share_per_user")]


class Segment(models.Model):
    """Events `[start, stop)` of `session`'s effective log stand in `origin`'s rows. Ordered by start."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="segments")
    origin = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="+")
    start = models.BigIntegerField()
    stop = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "start"], name="one_segment_per_start")]


class Event(models.Model):
    """Lines of a log, verbatim, covering seqs `seq..last_seq`: one event, or a batch of chunks.

    `normal` is the JSON envelope after the legacy upgrades where these change the line, else null. `type` is
    what queries find an event by: imported context messages of our own are under `context/message`.
    """

    # Every index begins with the session; one of its own would only mislead the planner of a grown log.
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    type = models.CharField(max_length=64)
    chunk = models.BooleanField(default=False)
    time = models.BigIntegerField()
    lines = models.BinaryField()
    normal = models.BinaryField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "seq"], name="one_event_per_seq")]
        indexes = [
            models.Index(fields=["session", "seq"], condition=models.Q(chunk=False), name="messages_only"),
            models.Index(fields=["session", "type", "seq"], condition=models.Q(chunk=False), name="by_type"),
        ]


class Passage(models.Model):
    """The words of one event's message, or of a part of a long one, for the search; see `core.words`."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.BigIntegerField()
    words = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["session", "seq"], name="passages_by_seq")]


class QueueItem(models.Model):
    """Accepted input that waits for its turn. It starts in the transaction that logs its message."""

    class Mode(models.TextChoices):
        QUEUE = "queue"  # a turn of its own
        STEER = "steer"  # before the running turn's next request

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="queue")
    position = models.BigIntegerField()
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.QUEUE)
    event_type = models.CharField(max_length=32, default="user/message")
    message = models.JSONField()  # the Message that will be logged
    created_at = models.BigIntegerField(default=now_ms)
    seq = models.BigIntegerField(null=True)  # where it was logged, once started

    class Meta:
        indexes = [models.Index(fields=["session", "position"], condition=models.Q(seq=None), name="pending_input")]

    @property
    def text(self) -> str:
        return "".join(b["text"] for b in self.message["content"] if b["type"] == "text")


class Injection(models.Model):
    """A context message on its way into a session: appended once, between turns or before a request."""

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        CANCELLED = "cancelled"

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="injections")
    key = models.CharField(max_length=128, unique=True)
    message: Any = models.JSONField()
    into_turn = models.BooleanField(default=False)  # may enter a running turn before its next request
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    seq = models.BigIntegerField(null=True)
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        indexes = [models.Index(fields=["session"], condition=models.Q(state="pending"), name="pending_injections")]


class Approval(models.Model):
    """A tool call that waits for the user; `decision` is empty while it is open."""

    class Decision(models.TextChoices):
        ALLOW_ONCE = "allow-once"
        ALLOW_SESSION = "allow-session"
        DENY = "deny"
        CANCELLED = "cancelled"  # the turn ended first

    id = models.CharField(primary_key=True, max_length=26, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="approvals")
    turn = models.BigIntegerField()
    call_id = models.TextField()
    tool = models.TextField()
    arguments = models.TextField()
    reason = models.TextField()
    decision = models.CharField(max_length=16, default="", blank=True)
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        indexes = [models.Index(fields=["session"], condition=models.Q(decision=""), name="open_approvals")]


class Runner(models.Model):
    """A live process that runs turns. One whose heartbeat lapsed is dead; its turns are repaired."""

    id = models.CharField(primary_key=True, max_length=64)
    heartbeat = models.BigIntegerField()


class IdempotencyKey(models.Model):
    """The answer to a POST that named a key: the same key and body answer the same again."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)  # of method, path and body
    status = models.IntegerField(default=0)
    body = models.TextField(default="")
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="one_answer_per_key")]


class McpListing(models.Model):
    """What an MCP server offered when it was last listed."""

    fingerprint = models.CharField(primary_key=True, max_length=64)  # of the server as it is configured
    content = models.TextField()  # JSON as text: the order of keys is part of every request


class StoredProvider(models.Model):
    """A model provider that was added in Settings, not by the environment. Model ids begin with its name."""

    class Protocol(models.TextChoices):
        OPENAI = "openai", "Chat Completions (OpenAI and compatible servers)"
        ANTHROPIC = "anthropic", "Messages (Anthropic)"

    name = models.CharField(primary_key=True, max_length=40)
    label = models.CharField(max_length=80)
    protocol = models.CharField(max_length=12, choices=Protocol.choices, default=Protocol.OPENAI)
    base_url = models.TextField()
    key = SecretField(default=b"")
    default_model = models.CharField(max_length=200, default="", blank=True)
    enabled = models.BooleanField(default=True)
    position = models.IntegerField(default=0)  # a default is looked for in this order
