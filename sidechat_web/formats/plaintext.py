"""The plain text of a log file, plain or Zstandard, in bounded memory.

A compressed log is a concatenation of standard frames. Their structure is walked here block by
block, because a reader must tell an unfinished last frame (a torn tail) from damage, and because a
decoder that is fed whole files may be made to fill the memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, Final

import zstandard

from sidechat_web.core.errors import LogUnreadable

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_READ: Final = 1 << 16
_FIRST_TEXT: Final = 1 << 18
_MAX_WINDOW: Final = 1 << 27
_EXPANSION_FREE: Final = 1 << 26  # plain text up to this size may come from any number of bytes
_EXPANSION_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class FrameEnd:
    """A frame's end at byte `end`, exclusive; it began at `start`. An incomplete frame is the last."""

    start: int
    end: int
    complete: bool


class Plaintext:
    """Pieces of plain text in order; where the file is compressed, frame ends stand between them.

    Iterating raises LogUnreadable for damage, possibly after pieces were given out.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._source = _Source(stream)
        self._head = self._source.read(len(MAGIC))
        self.compressed = self._head == MAGIC

    def __iter__(self) -> Iterator[bytes | FrameEnd]:
        if self.compressed:
            yield from _frames(self._source, self._head)
            return
        piece = self._head
        while piece:
            yield piece
            piece = self._source.read(_READ)


def first_text(head: bytes) -> bytes:
    """The plain text of a file that begins with `head`, its first line at least where that is whole."""
    if not head.startswith(MAGIC):
        return head
    held = bytearray()
    try:
        for piece in Plaintext(BytesIO(head)):
            held += b"" if isinstance(piece, FrameEnd) else piece
            if b"\n" in held or len(held) > _FIRST_TEXT:
                break
    except LogUnreadable:
        pass
    return bytes(held)


def whole_frames(stream: BinaryIO, start: int) -> Iterator[tuple[bytes, int]]:
    """`(text, end)` of each complete frame from byte `start` on; `end` is exclusive. Raises LogUnreadable."""
    stream.seek(start)
    source = _Source(stream, start)
    held = bytearray()
    for piece in _frames(source, source.read(len(MAGIC))):
        if not isinstance(piece, FrameEnd):
            held += piece
            if len(held) > _EXPANSION_FREE:
                raise LogUnreadable(f"a frame of more than {_EXPANSION_FREE} bytes of text")
        elif piece.complete:
            yield bytes(held), piece.end
            held.clear()


class _Source:
    """Reads of an exact length, shorter only at the end of the file."""

    def __init__(self, stream: BinaryIO, offset: int = 0) -> None:
        self.offset = offset
        self._stream = stream

    def read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing and (part := self._stream.read(missing)):
            parts.append(part)
            missing -= len(part)
        self.offset += size - missing
        return b"".join(parts)


class _Decoder:
    """One frame's decoder. A failure is only remembered: in an incomplete frame it means no more text."""

    def __init__(self) -> None:
        self.failed = False
        self._decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()

    def feed(self, data: bytes) -> bytes:
        if self.failed:
            return b""
        try:
            return self._decoder.decompress(data)
        except zstandard.ZstdError:
            self.failed = True
            return b""

    @property
    def whole(self) -> bool:
        return not self.failed and self._decoder.eof


def _frames(source: _Source, magic: bytes) -> Iterator[bytes | FrameEnd]:
    """The frames from where `magic` was read."""
    start, given = source.offset - len(magic), 0
    while magic:
        complete = False
        if len(magic) == len(MAGIC):
            if magic != MAGIC:
                raise LogUnreadable(f"invalid frame magic at byte {start}")
            frame = _frame(source, start)
            try:
                while True:
                    piece = next(frame)
                    given += len(piece)
                    _check_expansion(given, source.offset)
                    yield piece
            except StopIteration as end:
                complete = end.value
        yield FrameEnd(start, source.offset, complete)
        if not complete:
            return
        start = source.offset
        magic = source.read(len(MAGIC))


def _frame(source: _Source, start: int) -> Generator[bytes, None, bool]:
    """The text of the frame whose magic was read; returns whether the frame was complete."""
    decoder = _Decoder()
    descriptor = source.read(1)
    if not descriptor:
        return False
    header = source.read(_header_rest(descriptor[0], start))
    yield decoder.feed(MAGIC + descriptor + header)
    last = False
    while not last:
        block = source.read(3)
        if len(block) < 3:
            return False
        last, size = _block(block, source.offset - 3)
        content = source.read(size)
        yield decoder.feed(block + content)
        if len(content) < size:
            return False
    if descriptor[0] & 4:  # a checksum follows
        checksum = source.read(4)
        if len(checksum) < 4:
            return False
        yield decoder.feed(checksum)
    if not decoder.whole:
        raise LogUnreadable(f"the frame at byte {start} failed validation")
    return True


def _header_rest(descriptor: int, start: int) -> int:
    """How many bytes of frame header follow its descriptor (RFC 8878, 3.1.1.1)."""
    if descriptor & 0b11000:
        raise LogUnreadable(f"reserved frame header bit at byte {start + 4}")
    single_segment = bool(descriptor & 0b100000)
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    size_flag = descriptor >> 6
    content_size = (1 << size_flag) if size_flag else int(single_segment)
    return (not single_segment) + dictionary + content_size


def _block(header: bytes, at: int) -> tuple[bool, int]:
    """Whether the block is the last, and how many bytes it occupies after its header."""
    value = int.from_bytes(header, "little")
    kind, size = value >> 1 & 3, value >> 3
    if kind == 3:
        raise LogUnreadable(f"reserved block type at byte {at}")
    return bool(value & 1), 1 if kind == 1 else size


def _check_expansion(given: int, read: int) -> None:
    if given > _EXPANSION_FREE and given > read * _EXPANSION_LIMIT:
        raise LogUnreadable(f"expands more than {_EXPANSION_LIMIT}-fold")
