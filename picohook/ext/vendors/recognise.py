"""Recognises the hook files of each vendor: by their place, or by what only this vendor has in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.spec import HookSpec
from . import extension

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OF_GEMINI = frozenset(
    {"BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection"}
    | {"PreCompress"}
)
_OF_CURSOR = frozenset(
    {"beforeShellExecution", "afterShellExecution", "beforeMCPExecution", "afterMCPExecution", "beforeReadFile"}
    | {"afterFileEdit", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought", "workspaceOpen"}
    | {"beforeTabFileRead", "afterTabFileEdit"}
)
_OF_COPILOT = frozenset(
    {"userPromptSubmitted", "userPromptTransformed", "permissionRequest", "agentStop", "errorOccurred", "notification"}
)
_KEYS_OF_COPILOT = frozenset({"bash", "powershell", "timeoutSec"})


def claude(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Claude Code's settings, or has a list for each event of its `hooks`."""
    if path.match(".claude/settings*"):
        return True
    hooks = _hooks(document)
    names_a_hook = not hooks.keys().isdisjoint(HookSpec.model_fields)  # a hook without its name
    return bool(hooks) and not names_a_hook and all(isinstance(entries, list) for entries in hooks.values())


def codex(_document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Codex's files."""
    return _in_place("codex", path)


def gemini(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is Gemini CLI's settings, the hooks of an extension, or has an event that only Gemini CLI has."""
    of_extension = path.name == "hooks.json" and (path.parent.parent / "gemini-extension.json").is_file()
    return of_extension or _in_place("gemini", path) or not _OF_GEMINI.isdisjoint(_hooks(document))


def cursor(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is Cursor's `hooks.json`, or has an event that only Cursor has."""
    return _in_place("cursor", path) or not _OF_CURSOR.isdisjoint(_hooks(document))


def copilot(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of GitHub Copilot's files, or has what only Copilot has."""
    hooks = _hooks(document)
    entries = (one for some in hooks.values() if isinstance(some, list) for one in some)
    has_key = any(isinstance(one, dict) and not _KEYS_OF_COPILOT.isdisjoint(one) for one in entries)
    return has_key or _in_place("copilot", path) or not _OF_COPILOT.isdisjoint(hooks)


def _in_place(vendor: str, path: Path) -> bool:
    """Whether a file is in one of the places of the vendor's row."""
    row = extension.dialects[vendor]
    return any(path.match(place.removeprefix("~/")) for place in (*row.user_files, *row.project_files))


def _hooks(document: Mapping[str, Any]) -> dict[str, Any]:
    hooks = document.get("hooks")
    return hooks if isinstance(hooks, dict) else {}
