"""Sessions as files: a log that DeepSeek Harness accepts, OpenAI-style messages, readable Markdown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, Literal

import zstandard
from django.utils.text import slugify

from sidechat_web.core import jsontext, wire_openai
from sidechat_web.core.events import Json, Message
from sidechat_web.storage import reading
from sidechat_web.storage.models import Session

from .markdown import transcript
from .stored import header_line, stored_lines, untouched

_FRAME_BYTES: Final = 1 << 18  # of plain text in one compressed frame
_IN_MEMORY_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 16

Format = Literal["dsh", "markdown", "openai"]


@dataclass(frozen=True, slots=True)
class Exported:
    """A session as a file, whole before its first byte is sent: what fails to be written fails before."""

    name: str
    content_type: str
    file: IO[bytes]

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": self.content_type, "Content-Disposition": f'attachment; filename="{self.name}"'}

    async def pieces(self) -> AsyncIterator[bytes]:
        """The file, for a response that streams it; closed at its end."""
        with self.file:
            while piece := self.file.read(_PIECE_BYTES):
                yield piece


def export(session: Session, format: Format) -> Exported:
    write, content_type, suffix = _FORMATS[format]
    file = SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by whoever reads it
    file.writelines(write(session))
    file.seek(0)
    return Exported(f"{slugify(session.title)[:60] or 'session'}-{session.pk}.{suffix}", content_type, file)


def export_dsh(session: Session, compress: bool = False) -> Iterator[bytes]:
    """The log in pieces. An imported log that nothing was added to leaves byte for byte as it came in."""
    session = Session.objects.get(pk=session.pk)
    verbatim = untouched(session) and bool(session.header_line)
    lines = (line.text if verbatim else line.exported() for line in stored_lines(session))
    batches = _batches(line + b"\n" for line in lines)
    header = header_line(session) + b"\n"
    if compress:
        yield _frame(header)
        yield from map(_frame, batches)
    else:
        yield header
        yield from batches


def export_openai(session: Session) -> Iterator[bytes]:
    """`{model?, messages, tools?}` as JSON, messages in the Chat Completions form that a request would carry."""
    surface = reading.surface(session)
    header = surface.header or session.settings.get("header") or {"config": {"model": None}}
    body = wire_openai.body(_without_thinking(header), [_without_images(message) for message in surface.messages()])
    yield jsontext.dump_bytes({key: body[key] for key in ("model", "messages", "tools") if body.get(key) is not None})
    yield b"\n"


def export_markdown(session: Session) -> Iterator[bytes]:
    """The transcript as Markdown, in pieces: what was said, with tools and the origin of injected context."""
    session = Session.objects.get(pk=session.pk)
    for piece in transcript(session, reading.events(session, stop=session.next_seq)):
        yield piece.encode("utf-8", "replace")


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _FRAME_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _frame(text: bytes) -> bytes:
    """One Zstandard frame with a checksum; the header line and each batch stand in their own."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


def _without_thinking(header: dict[str, Any]) -> dict[str, Any]:
    return {**header, "config": {k: v for k, v in header["config"].items() if k != "reasoningEffort"}}


def _without_images(message: Message) -> Message:
    return {**message, "content": _replaced(message["content"])}


def _replaced(content: Json) -> Json:
    """The content with each image replaced by a line that says so: the text form has no place for one."""
    return [_replaced_block(block) for block in content] if isinstance(content, list) else content


def _replaced_block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "image":
        return {"type": "text", "text": "[image]"}
    return {**block, "content": _replaced(block["content"])} if block.get("type") == "tool-result" else block


_FORMATS: Final[dict[Format, tuple[Callable[[Session], Iterable[bytes]], str, str]]] = {
    "dsh": (export_dsh, "application/x-ndjson", "jsonl"),
    "markdown": (export_markdown, "text/markdown; charset=utf-8", "md"),
    "openai": (export_openai, "application/json", "json"),
}
