"""The built-in workspace tools: what models are told of them, in words and schemas that do not change.

Each byte here stands in the cached prefix of every session that has a workspace: change a text only for a reason
that is worth a cold cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.conf import settings

from sidechat_web.storage.models import Session

from . import files, search, shell
from .registry import Tool


def _object(required: Iterable[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_PATH: Final = _text("Path of the file, relative to the workspace")

READ_FILE: Final = Tool(
    "read_file",
    "Read a text file of the workspace. Every line is given as its number, a tab and its text; the number and the tab "
    f"are not part of the file. At most {files.MAX_LINES} lines are given at once: go on with 'offset'.",
    _object(
        ["path"],
        path=_PATH,
        offset={"type": "integer", "minimum": 1, "description": "First line to read; 1 is the first of the file"},
        limit={"type": "integer", "minimum": 1, "description": "How many lines to read"},
    ),
    read_only=True,
    run=files.read_file,
)
LIST_FILES: Final = Tool(
    "list_files",
    "List what is in one directory of the workspace: directories first, with a slash at their end, then files with "
    "their sizes. Use glob to look deeper.",
    _object([], path=_text("Path of the directory, relative to the workspace; the workspace itself if absent")),
    read_only=True,
    run=files.list_files,
)
GLOB: Final = Tool(
    "glob",
    "Find files of the workspace by name, for example '**/*.py', 'src/**/test_*.{ts,tsx}'. A pattern without a slash "
    "matches at any depth. Version control and dependency directories (.git, node_modules, .venv, …) are left out "
    "unless the pattern names them.",
    _object(["pattern"], pattern=_text("The pattern, relative to the workspace")),
    read_only=True,
    run=search.glob,
)
GREP: Final = Tool(
    "grep",
    "Search the text of files in the workspace, line by line, with a Python regular expression ('(?i)' first ignores "
    "case). Gives path:line:text. Version control and dependency directories are left out unless 'path' or 'glob' "
    "names them.",
    _object(
        ["pattern"],
        pattern=_text("The regular expression"),
        path=_text("File or directory to search, relative to the workspace; all of it if absent"),
        glob=_text("Only files that match this, for example '*.py'"),
    ),
    read_only=True,
    run=search.grep,
)
WRITE_FILE: Final = Tool(
    "write_file",
    "Make a file in the workspace, or replace all of one. Directories that are missing are made. Use edit_file to "
    "change a part of a file.",
    _object(["path", "content"], path=_PATH, content=_text("The whole content of the file")),
    read_only=False,
    run=files.write_file,
)
EDIT_FILE: Final = Tool(
    "edit_file",
    "Replace exact text in a file of the workspace. 'old' must match the file exactly, white space included and line "
    "numbers excluded, and must stand there once, unless 'all' is true.",
    _object(
        ["path", "old", "new"],
        path=_PATH,
        old=_text("The text to replace"),
        new=_text("The text to put in its place"),
        all={"type": "boolean", "description": "Replace it everywhere in the file"},
    ),
    read_only=False,
    run=files.edit_file,
)
SHELL: Final = Tool(
    "shell",
    "Run a shell command in the workspace and give its output and exit code. It gets no input, and it is stopped "
    f"after {shell.SECONDS:g} seconds; what it leaves in the background ends with it.",
    _object(["command"], command=_text("The command")),
    read_only=False,
    run=shell.run,
    timeout_seconds=shell.SECONDS + 10,
)
FILE_TOOLS: Final = (READ_FILE, LIST_FILES, GLOB, GREP, WRITE_FILE, EDIT_FILE)


def source(_session: Session | None, cwd: str | None) -> Iterable[Tool]:
    """The tools of a workspace; none without one, and `shell` only where the operator has turned it on."""
    if cwd is None:
        return ()
    return (*FILE_TOOLS, SHELL) if settings.SIDECHAT_ENABLE_SHELL else FILE_TOOLS
