"""The agents whose hook files picohook reads, one entry each, and how it recognises their files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ....model.spec import HookSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..dialects import DialectName
    from .form import Form


GEMINI_EVENTS = frozenset(
    {"BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection"}
    | {"PreCompress"}
)

CURSOR_EVENTS = frozenset(
    {"beforeShellExecution", "afterShellExecution", "beforeMCPExecution", "afterMCPExecution", "beforeReadFile"}
    | {"afterFileEdit", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought", "workspaceOpen"}
    | {"beforeTabFileRead", "afterTabFileEdit"}
)


COPILOT_EVENTS = frozenset(
    {"userPromptSubmitted", "userPromptTransformed", "permissionRequest", "agentStop", "errorOccurred", "notification"}
)

_COPILOT_KEYS = frozenset({"bash", "powershell", "timeoutSec"})
_COPILOT_PLACES = {(".github", "hooks"), (".github", "copilot"), (".copilot", "hooks")}


class VendorFiles(NamedTuple):
    """The hook files of one agent."""

    title: str
    """The agent's name, for people."""
    is_meant: Callable[[Mapping[str, Any], Path], bool]
    """Whether a document at this path is one of its files."""
    user_files: tuple[str, ...]
    project_files: tuple[str, ...]


def is_claude(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Claude Code's settings, or has a list for each event of its `hooks`."""
    return _has_lists(document) or (path.parent.name == ".claude" and path.name.startswith("settings"))


def is_codex(_document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Codex's files, by its place."""
    return path.parent.name == ".codex" and path.name in {"hooks.json", "config.toml"}


def is_gemini(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is Gemini CLI's settings, the hooks of an extension, or has an event that only Gemini CLI has."""
    if path.name == "settings.json" and path.parent.name == ".gemini":
        return True
    if path.name == "hooks.json" and (path.parent.parent / "gemini-extension.json").is_file():
        return True
    return _has_event(document, GEMINI_EVENTS)


def is_cursor(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is Cursor's `hooks.json`, or has an event that only Cursor has."""
    return (path.parent.name == ".cursor" and path.name == "hooks.json") or _has_event(document, CURSOR_EVENTS)


def is_copilot(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of GitHub Copilot's files, by its place, or has what only Copilot has."""
    is_place = path.parent.parts[-2:] in _COPILOT_PLACES or path.parent.name == ".copilot"
    return is_place or _has_event(document, COPILOT_EVENTS) or _has_key(document, _COPILOT_KEYS)


def _has_event(document: Mapping[str, Any], events: frozenset[str]) -> bool:
    hooks = document.get("hooks")
    return isinstance(hooks, dict) and not events.isdisjoint(hooks)


def _has_key(document: Mapping[str, Any], keys: frozenset[str]) -> bool:
    hooks = document.get("hooks")
    entries = (
        [one for some in hooks.values() if isinstance(some, list) for one in some] if isinstance(hooks, dict) else []
    )
    return any(isinstance(one, dict) and not keys.isdisjoint(one) for one in entries)


def _has_lists(document: Mapping[str, Any]) -> bool:
    hooks = document.get("hooks")
    if not isinstance(hooks, dict) or not hooks.keys().isdisjoint(
        HookSpec.model_fields
    ):  # else a hook without its name
        return False
    return bool(hooks) and all(isinstance(entries, list) for entries in hooks.values())


VENDOR_FILES: dict[DialectName, VendorFiles] = {
    "claude": VendorFiles(
        "Claude Code",
        is_claude,
        user_files=("~/.claude/settings.json",),
        project_files=(".claude/settings.json", ".claude/settings.local.json"),
    ),
    "codex": VendorFiles(
        "Codex",
        is_codex,
        user_files=("~/.codex/hooks.json", "~/.codex/config.toml"),
        project_files=(".codex/hooks.json", ".codex/config.toml"),
    ),
    "gemini": VendorFiles(
        "Gemini CLI",
        is_gemini,
        user_files=("~/.gemini/settings.json",),
        project_files=(".gemini/settings.json",),
    ),
    "cursor": VendorFiles(
        "Cursor",
        is_cursor,
        user_files=("~/.cursor/hooks.json",),
        project_files=(".cursor/hooks.json",),
    ),
    "copilot": VendorFiles(
        "Copilot",
        is_copilot,
        user_files=("~/.copilot/hooks/*.json", "~/.copilot/settings.json"),
        project_files=(
            ".github/hooks/*.json",
            ".github/copilot/settings.json",
            ".github/copilot/settings.local.json",
        ),
    ),
}
"""The agents, by the names of their dialects. If several take a document, the last one gets it: Claude Code takes the rest.

The folder of each has its `Form`, in `file.py`, and its contract.
"""


def vendor_of(document: Mapping[str, Any], path: Path) -> DialectName | None:
    """The dialect of a file, by its path and its form; None if neither shows it."""
    return next((name for name, vendor in reversed(VENDOR_FILES.items()) if vendor.is_meant(document, path)), None)


def form_of(name: str) -> Form:
    """The form of a dialect's files. It is imported when a file needs it."""
    form: Form = import_module(f"...{name}.file", __name__).FORM
    return form
