"""The directories of the user: the home directory, and the one for picohook's configuration."""

import os
import pwd
from pathlib import Path

from .problems import Problems


def configuration() -> Path:
    """The directory of the user's own configuration. Raises `ConfigError`."""
    import platformdirs  # only for configurations that are found

    try:
        found = platformdirs.user_config_path("picohook")
    except RuntimeError:  # there is no home directory
        found = Path("~")
    return _absolute(found, "XDG_CONFIG_HOME or HOME")


def expanded(name: str) -> Path:
    """The path of a file, which may begin with `~`. Raises `ConfigError`."""
    return _absolute(Path(os.path.expanduser(name)), "HOME") if name.startswith("~") else Path(name)


def home() -> str:
    """The real path of the home directory that the system has for this user, whatever `HOME` says; empty if it has none.

    So no variable turns a project into the home directory, whose files are not a project's.
    """
    try:
        return os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return ""


def _absolute(path: Path, variables: str) -> Path:
    """The path. A relative one would lie in the working directory, whose files are not the user's own."""
    if not path.is_absolute() or os.environ.get("HOME") == "":
        message = f"your own configuration cannot be found: {variables} does not name a directory by its whole path"
        Problems(str(path)).fail("", message, f"set {variables.rsplit(maxsplit=1)[-1]}")
    return path
