"""The directories in which the hooks of a hook file run, and the environment variables that name them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
