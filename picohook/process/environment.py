"""The environment variables that a hook gets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.spec import HookSpec

INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "SHELL", "TZ", "XDG_RUNTIME_DIR"}
)
"""The host's variables that a hook inherits by default, beside all of `LC_*`."""
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""The PATH of the system's hooks: the user must not decide which programs they are."""
_keys: dict[str, str] = {}
"""The variables that `hide_keys` has removed."""
_SYSTEM = {"PATH": SYSTEM_PATH, "PYTHONNOUSERSITE": "1"}
"""Python runs code of the home directory at its start, unless it is told not to."""


def search_path(spec: HookSpec, environ: Mapping[str, str]) -> str:
    """The PATH on which a hook's program is looked for: the host's, or that of the system's hooks."""
    return SYSTEM_PATH if spec.layer == "system" else environ.get("PATH", os.defpath)


def environment(spec: HookSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """A hook's environment: the variables that it inherits from the host, and its own `env`."""
    if spec.inherit_env is True:
        inherited = dict(environ)
    else:
        more = spec.inherit_env or ()
        inherited = {
            name: environ[name] for name in environ if name in INHERITED or name.startswith("LC_") or name in more
        }
    return {**inherited, **(_SYSTEM if spec.layer == "system" else {}), **spec.env}


def hide_keys() -> None:
    """Remove the variables `PICOHOOK_..._KEY` from this process, so that no hook inherits them. `key_of` knows them."""
    for name in [one for one in os.environ if one.startswith("PICOHOOK_") and one.endswith("_KEY")]:
        _keys[name] = os.environ.pop(name)


def key_of(name: str) -> str:
    """The value of a variable `PICOHOOK_..._KEY`, even if it is hidden; empty if it is not set."""
    return os.environ.get(name) or _keys.get(name, "")
