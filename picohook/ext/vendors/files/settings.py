"""What a hook file says for all its handlers, and where they run: by the vendor's `files`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..vendor import Vendor


@dataclass(frozen=True, slots=True)
class Places:
    """The directories in which the hooks of a file run, and the environment variables that name them."""

    project: Path
    cwd: Path
    env: Mapping[str, str]


def places(vendor: Vendor, path: Path, work: Path) -> Places:
    """A project's file names the project. For any other file, the project is `work`, the host's working directory."""
    files = vendor.files
    home = Path(os.path.realpath(Path.home()))
    depth = next((len(Path(one).parts) for one in files.directories if path.parent.match(one)), 0)
    own = path.parents[depth] if depth and path.parents[depth] != home else None
    project, plugin = own or work, vendor.plugin_of(path, own)
    env = files.env
    names = {"project": project}
    if plugin is not None:
        import platformdirs  # only for plugins

        env = {**env, **files.plugin_env}
        names |= {"plugin": plugin, "data": Path(platformdirs.user_data_path("picohook")) / "plugins" / plugin.name}
    found = {name: value.format_map(names) for name, value in env.items()}
    return Places(project, path.parent if files.beside_the_file and own is None else project, found)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The settings of a file for all its handlers."""

    off: str
    """The setting that switches all hooks off; empty if they are on."""
    problem: str
    """The mistake in its `version`, for which the agent does not load the file; empty without one."""
    warnings: tuple[str, ...]
    allowed_urls: tuple[str, ...] | None
    """Patterns of the URLs that handlers may have; None for all."""
    allowed_env: tuple[str, ...] | None
    """The environment variables that headers may name; None for all."""
    disabled: tuple[str, ...]
    """Handlers that are switched off, each by its name, or by its command if it has none."""


def file_settings(vendor: Vendor, document: Mapping[str, Any]) -> FileSettings:
    """The settings in a document."""
    files, version = vendor.files, document.get("version", 1)
    other = bool(files.other_versions) and (version != 1 or version is True)
    warnings = [f"{key}: {why}" for key, why in files.warnings.items() if document.get(key)]
    if other and files.other_versions == "read":
        warnings.append(f"version: {version} is not known: it is read as 1")
    off = (f"{key}: it is {str(value).lower()}" for key, value in files.off.items() if _at(document, key) is value)
    return FileSettings(
        off=next(off, ""),
        problem=f"is not 1: {vendor.title} does not load the file"
        if other and files.other_versions == "refuse"
        else "",
        warnings=tuple(warnings),
        allowed_urls=_texts(document, files.allowed_urls),
        allowed_env=_texts(document, files.allowed_env),
        disabled=_texts(document, files.disabled) or (),
    )


def _at(document: Mapping[str, Any], key: str) -> Any:
    """The value at a key, which has a dot for each table on the way; None without one."""
    found: Any = document
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    """The texts in a list; None for anything else."""
    value = _at(document, key)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else None
