"""The contracts of other systems with their hooks, as data and pure functions. A dialect is a folder."""

from ...extension import Command, Dialect, Extension, Lazy

# For each vendor: its title, the hook files of a user, and those of a project.
_FILES = {
    "claude": ("Claude Code", "~/.claude/settings.json", ".claude/settings.json .claude/settings.local.json"),
    "codex": ("Codex", "~/.codex/hooks.json ~/.codex/config.toml", ".codex/hooks.json .codex/config.toml"),
    "gemini": ("Gemini CLI", "~/.gemini/settings.json", ".gemini/settings.json"),
    "cursor": ("Cursor", "~/.cursor/hooks.json", ".cursor/hooks.json"),
    "copilot": (
        "Copilot",
        "~/.copilot/hooks/*.json ~/.copilot/settings.json",
        ".github/hooks/*.json .github/copilot/settings.json .github/copilot/settings.local.json",
    ),
}

extension = Extension(
    name="vendors",
    tables={"foreign": Lazy("picohook.ext.vendors.files.named_files:ForeignTable")},
    uses=("prompt",),
    public=("dialects", "dialogue", "tools"),
    dialects={
        name: Dialect(
            title,
            is_meant=Lazy(f"{__name__}.dialects:{name}"),
            read=Lazy(f"{__name__}.files.reader:read"),
            section="hooks",
            user_files=tuple(user.split()),
            project_files=tuple(project.split()),
            has_comments=name == "gemini",
            all_apply=True,
            trust_in="for this file in [[foreign]] of picohook.toml",
        )
        for name, (title, user, project) in _FILES.items()
    },
    commands={
        "shim": Command(Lazy("picohook.ext.vendors.command:app"), "Use your hooks in the agent of another vendor."),
    },
)
