"""The last frames of a feed, made once and read by each viewer at its own pace."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from .blocks import Key

MAX_FRAMES: Final = 1_000
MAX_CHARS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame in both renderings; an empty one is not sent to viewers of that kind.

    `seq` is that of an event, `chunk` marks frames for viewers who asked for chunk events, `block` and
    `end` say how much of a streaming block a viewer has after it.
    """

    json: str = ""
    html: str = ""
    seq: int = -1
    chunk: bool = False
    block: Key | None = None
    end: int = 0

    @property
    def size(self) -> int:
        return len(self.json) + len(self.html)


class Tape:
    """Bounded by frames and characters, whatever the number of viewers. A place on it is a running number."""

    def __init__(self, max_frames: int = MAX_FRAMES, max_chars: int = MAX_CHARS) -> None:
        self._frames: deque[Frame] = deque()
        self._max_frames, self._max_chars = max_frames, max_chars
        self._chars = 0
        self.start = 0  # the place of the oldest frame that is still there

    @property
    def end(self) -> int:
        """The place of the next frame."""
        return self.start + len(self._frames)

    def append(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._chars += frame.size
        while len(self._frames) > 1 and (len(self._frames) > self._max_frames or self._chars > self._max_chars):
            self._chars -= self._frames.popleft().size
            self.start += 1

    def at(self, place: int) -> Frame:
        """Raises IndexError for a place that is no longer there."""
        if place < self.start:
            raise IndexError(place)
        return self._frames[place - self.start]
