"""The environment variables that a hook gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.spec import HookSpec

INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "SHELL", "TZ", "XDG_RUNTIME_DIR"}
)
"""The variables of the host that a hook inherits by default, with all of `LC_*`."""


def environment(spec: HookSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """The inherited variables of the host's environment, and the hook's own `env`."""
    if spec.inherit_env is True:
        inherited = dict(environ)
    else:
        more = spec.inherit_env or ()
        inherited = {
            name: value
            for name, value in environ.items()
            if name in INHERITED or name.startswith("LC_") or name in more
        }
    return {**inherited, **spec.env}
