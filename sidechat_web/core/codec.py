"""Events to and from the lines of a log, chunk runs packed as the format packs them.

Envelope key order on write: `type, seq, time, data, sourceEventSeqs?, surfaceOp?, ignorable?`.
A packed row is a storage encoding only: after reading there are no such types.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from . import jsontext
from .events import ASSISTANT_CHUNK, Event, Json, Replace, SurfaceOp, safe_integer

# row type → (delta type, name of the list in the row, name of the text in the delta)
PACKED: Final = {
    "text-chunks": ("text-delta", "texts", "text"),
    "reasoning-chunks": ("reasoning-delta", "texts", "text"),
    "tool-call-chunks": ("tool-call-delta", "args", "argumentsDelta"),
}
_ROW_OF_DELTA: Final = {delta: (row, items, item) for row, (delta, items, item) in PACKED.items()}
_MIN_RUN: Final = 3  # shorter runs stay single events


def envelope(event: Event) -> dict[str, Any]:
    out: dict[str, Any] = {"type": event.type, "seq": event.seq, "time": event.time, "data": event.data}
    if event.source_event_seqs is not None:
        out["sourceEventSeqs"] = list(event.source_event_seqs)
    if event.surface_op is not None:
        out["surfaceOp"] = _op_json(event.surface_op)
    if event.ignorable:
        out["ignorable"] = True
    return out


def from_envelope(record: dict[str, Any]) -> Event:
    """The event of a record that is known to be well formed (our own, or validated by `formats`)."""
    sources = record.get("sourceEventSeqs")
    return Event(
        record["seq"],
        record["time"],
        record["type"],
        record["data"],
        _op_value(record.get("surfaceOp")),
        None if sources is None else tuple(sources),
        record.get("ignorable") is True,
    )


def encode(event: Event) -> bytes:
    """The event's line, without the newline."""
    return jsontext.dump_bytes(envelope(event))


def decode(line: bytes) -> list[Event]:
    """The events of one well-formed line: one, or the members of a packed row."""
    record = jsontext.loads(line)
    return unpack(record) if record["type"] in PACKED else [from_envelope(record)]


def pack(events: Sequence[Event]) -> Iterator[bytes]:
    """The lines of one write batch: maximal runs of at least three like deltas become one row."""
    i = 0
    while i < len(events):
        j = _run_end(events, i)
        if j - i >= _MIN_RUN:
            yield jsontext.dump_bytes(_row(events[i:j]))
            i = j
        else:
            yield encode(events[i])
            i += 1


def unpack(row: dict[str, Any]) -> list[Event]:
    """The members of a well-formed packed row; member k has `seq0 + k` and the summed time gaps."""
    delta, items, item = PACKED[row["type"]]
    data, time = row["data"], row["time0"]
    fixed: dict[str, Any] = {"type": delta, "index": data["index"]}
    if delta == "tool-call-delta":
        fixed["id"] = data["id"]
        if "name" in data:
            fixed["name"] = data["name"]
    out = []
    for k, text in enumerate(data[items]):
        if k:
            time += data["dt"][k - 1]
        chunk = {**fixed, item: text}
        out.append(Event(row["seq0"] + k, time, ASSISTANT_CHUNK, _chunk_data(data["turn"], data["step"], chunk)))
    return out


def join(lines: Iterable[bytes]) -> bytes:
    return b"\n".join(lines)


def _chunk_data(turn: Json, step: Json, chunk: dict[str, Any]) -> dict[str, Any]:
    return {"turn": turn, "step": step, "chunk": chunk}


def _row(run: Sequence[Event]) -> dict[str, Any]:
    first = run[0].data
    chunk = first["chunk"]
    row_type, items, item = _ROW_OF_DELTA[chunk["type"]]
    data: dict[str, Any] = {"turn": first["turn"], "step": first["step"], "index": chunk["index"]}
    data["dt"] = [b.time - a.time for a, b in itertools.pairwise(run)]
    for key in ("id", "name"):
        if key in chunk:
            data[key] = chunk[key]
    data[items] = [e.data["chunk"][item] for e in run]
    return {"type": row_type, "seq0": run[0].seq, "time0": run[0].time, "data": data}


def _run_end(events: Sequence[Event], start: int) -> int:
    key = _run_key(events[start])
    end = start + 1
    while key is not None and end < len(events):
        before, event = events[end - 1], events[end]
        if event.seq != before.seq + 1 or not safe_integer(event.time - before.time) or _run_key(event) != key:
            break
        end += 1
    return end


def _run_key(event: Event) -> tuple[Any, ...] | None:
    """What members of one packed row share; None where the event cannot be packed."""
    if event.type != ASSISTANT_CHUNK or event.surface_op or event.source_event_seqs is not None or event.ignorable:
        return None
    data = event.data
    if not isinstance(data, dict) or data.keys() != {"turn", "step", "chunk"}:
        return None
    chunk = data["chunk"]
    place = (data["turn"], data["step"], chunk.get("index")) if isinstance(chunk, dict) else (None,)
    if not all(is_number(part) for part in place) or not _is_delta(chunk):
        return None
    return (chunk["type"], *place, chunk.get("id"), chunk.get("name"))


def _is_delta(chunk: dict[str, Any]) -> bool:
    """Whether the chunk is exactly one of the three delta shapes."""
    shape = _ROW_OF_DELTA.get(chunk["type"]) if isinstance(chunk.get("type"), str) else None
    if shape is None:
        return False
    texts = {shape[2]}
    if shape[0] == "tool-call-chunks":
        texts |= {"id", "name"} if "name" in chunk else {"id"}
    return chunk.keys() == texts | {"type", "index"} and all(isinstance(chunk[key], str) for key in texts)


def is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _op_json(op: SurfaceOp) -> Json:
    return op if isinstance(op, str) else {"op": "replace", "start": op.start, "end": op.end}


def _op_value(op: Json) -> SurfaceOp | None:
    if op is None or op == "append":
        return op  # type: ignore[no-any-return]
    return Replace(op["start"], op["end"])
