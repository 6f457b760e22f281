"""What a server answered, as text for the model."""

from __future__ import annotations

from typing import Any

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from sidechat_web.core import jsontext
from sidechat_web.runtime.tools.output import capped, count
from sidechat_web.runtime.tools.registry import Result


def result_of(answer: CallToolResult, meta: dict[str, Any]) -> Result:
    """Its texts in order; what is not text is named, with its type and size."""
    text = "\n".join(_text(block) for block in answer.content)
    if not text and answer.structured_content is not None:
        text = jsontext.dumps(answer.structured_content)
    return Result(capped(text), answer.is_error, meta)


def _text(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type}: {block.mime_type}, {count(len(block.data) * 3 // 4, 'byte')}; not shown]"
        case ResourceLink():
            return f"[resource: {block.name}, {block.uri}]"
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return f"[resource: {resource.uri}]\n{resource.text}"
        case EmbeddedResource():
            return f"[resource: {block.resource.uri}; not shown]"
    return f"[{block.type}; not shown]"
