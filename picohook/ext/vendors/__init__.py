"""The contracts of other systems with their hooks, as data and pure functions. A dialect is a folder."""

from __future__ import annotations

from ...extension import Command, Dialect, Extension, Lazy


def _dialect(
    name: str, title: str, *, user_files: tuple[str, ...], project_files: tuple[str, ...], has_comments: bool = False
) -> Dialect:
    return Dialect(
        title,
        is_meant=Lazy(f"{__name__}.recognise:{name}"),
        read=Lazy(f"{__name__}.files.reader:read"),
        section="hooks",
        user_files=user_files,
        project_files=project_files,
        has_comments=has_comments,
        all_apply=True,
        trust_in="for this file in [[foreign]] of picohook.toml",
    )


extension = Extension(
    name="vendors",
    tables={"foreign": Lazy("picohook.ext.vendors.table:ForeignTable")},
    uses=("prompt",),
    public=("dialects", "dialogue", "tools"),
    dialects={
        "claude": _dialect(
            "claude",
            "Claude Code",
            user_files=("~/.claude/settings.json",),
            project_files=(".claude/settings.json", ".claude/settings.local.json"),
        ),
        "codex": _dialect(
            "codex",
            "Codex",
            user_files=("~/.codex/hooks.json", "~/.codex/config.toml"),
            project_files=(".codex/hooks.json", ".codex/config.toml"),
        ),
        "gemini": _dialect(
            "gemini",
            "Gemini CLI",
            user_files=("~/.gemini/settings.json",),
            project_files=(".gemini/settings.json",),
            has_comments=True,
        ),
        "cursor": _dialect(
            "cursor",
            "Cursor",
            user_files=("~/.cursor/hooks.json",),
            project_files=(".cursor/hooks.json",),
        ),
        "copilot": _dialect(
            "copilot",
            "Copilot",
            user_files=("~/.copilot/hooks/*.json", "~/.copilot/settings.json"),
            project_files=(
                ".github/hooks/*.json",
                ".github/copilot/settings.json",
                ".github/copilot/settings.local.json",
            ),
        ),
    },
    commands={
        "shim": Command(Lazy("picohook.ext.vendors.command:app"), "Use your hooks in the agent of another vendor."),
    },
)
