"""Lines of plain text to parsed records with contiguous seqs; decides what is only a torn tail.

The first line that cannot be read ends the log. That is a crash's trace and is dropped, unless a
`turn/end` follows: then history behind a finished turn is damaged, and the log is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import jsontext, rules
from sidechat_web.core.codec import PACKED
from sidechat_web.core.errors import LogUnreadable
from sidechat_web.core.events import TURN_END

from .plaintext import FrameEnd

MAX_LINE_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class TornTail:
    """What a crash left: a repair cuts the file at byte `truncate_to`, writes the recovered events anew."""

    truncate_to: int
    recovered: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """One good line: its record, and the seqs of the events that it stands for, both inclusive."""

    number: int
    text: bytes
    record: dict[str, Any]
    first: int
    last: int


class Scan:
    """Takes pieces of plain text after the header line, gives good lines, keeps the place of the first bad one."""

    def __init__(self, header_bytes: int, compressed: bool) -> None:
        self.next_seq = 0
        self.number = 1  # of the line last taken; the header is line 1
        self._compressed = compressed
        self._offset = self._good_end = header_bytes
        self._good_number = 1
        self._fragment: list[bytes] = []
        self._fragment_bytes = 0
        self._issue: LogUnreadable | None = None
        self._unclean: LogUnreadable | None = None  # what was wrong where the last complete frame ended
        self._whole_frames_seq = 0
        self._torn_frame: int | None = None

    def take(self, piece: bytes) -> Iterator[Scanned]:
        """The good lines that end in `piece`. Raises LogUnreadable once damage turns out to be more than a tail."""
        if self._issue is not None:
            if ended := self._ended(piece):
                self._skim(ended)
            return
        ended = self._ended(piece)
        lines = ended.split(b"\n") if ended is not None else []
        for i, text in enumerate(lines):
            self.number += 1
            self._offset += len(text) + 1
            try:
                found = self._scanned(text)
            except ValueError as error:
                self._issue = LogUnreadable(str(error), line=self.number)
                self._skim(b"\n".join(lines[i:]))
                return
            self.next_seq, self._good_end, self._good_number = found.last + 1, self._offset, self.number
            yield found

    def frame_ended(self, end: FrameEnd) -> None:
        if not end.complete:
            self._torn_frame = end.start
            return
        self._whole_frames_seq = self.next_seq
        torn_record = LogUnreadable("a complete frame ends inside a record", line=self.number + 1)
        self._unclean = self._issue or (torn_record if self._fragment_bytes else None)

    def check(self) -> None:
        """Raise what is wrong in the whole frames that were taken; a line may still go on in the next."""
        if self._issue is not None:
            raise self._issue

    def drop_tail(self) -> int:
        """Forget what follows the last good line, so that reading can go on there; returns that byte."""
        self._fragment, self._fragment_bytes, self._issue = [], 0, None
        self._offset, self.number = self._good_end, self._good_number
        return self._good_end

    def finished(self) -> TornTail | None:
        """The torn tail, if any. Raises LogUnreadable where complete frames hold anything but whole records."""
        if self._compressed:
            if self._unclean is not None:
                raise self._unclean
            torn = self._torn_frame
            return None if torn is None else TornTail(torn, self.next_seq - self._whole_frames_seq)
        whole = self._good_end == self._offset and not self._fragment_bytes
        return None if whole else TornTail(self._good_end, 0)

    def _ended(self, piece: bytes) -> bytes | None:
        """The lines that end in `piece`, without the last newline; None for none."""
        ended, newline, rest = piece.rpartition(b"\n")
        if newline:
            ended = b"".join([*self._fragment, ended])
            self._fragment, self._fragment_bytes = [], 0
        if rest:
            self._fragment.append(rest)
            self._fragment_bytes += len(rest)
        if self._fragment_bytes > MAX_LINE_BYTES:
            line = self.number + 1 + (ended.count(b"\n") + 1 if newline else 0)
            raise LogUnreadable(f"longer than {MAX_LINE_BYTES} bytes", line=line)
        return ended if newline else None

    def _scanned(self, text: bytes) -> Scanned:
        """The line's record. Raises ValueError where it is none, or does not continue the log."""
        record = parse_record(text)
        if rules.one_of(record.get("type"), PACKED):
            if reason := rules.packed_row(record):
                raise ValueError(reason)
            first, last = record["seq0"], record["seq0"] + rules.members(record) - 1
        else:
            first = last = record.get("seq")
        if type(first) is not int or first != self.next_seq:
            raise ValueError(f"seq gap: expected {self.next_seq}, got {jsontext.dumps(first)[:40]}")
        return Scanned(self.number, text, record, first, last)

    def _skim(self, lines: bytes) -> None:
        """Raise the issue if one of these lines is a `turn/end`: what came before it cannot be a torn tail."""
        if b"turn" not in lines and b"\\" not in lines:
            return
        for text in lines.split(b"\n"):
            if b"turn" not in text and b"\\" not in text:
                continue
            try:
                record = parse_record(text)
            except ValueError:
                continue
            if record.get("type") == TURN_END and self._issue is not None:
                raise self._issue


def parse_record(text: bytes) -> dict[str, Any]:
    try:
        record = jsontext.loads(text)
    except ValueError:
        raise ValueError("not valid JSON") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record
