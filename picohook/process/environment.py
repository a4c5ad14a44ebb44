"""The environment variables that a hook gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.spec import HookSpec

INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "SHELL", "TZ", "XDG_RUNTIME_DIR"}
)
"""The host's variables that a hook inherits by default, beside all of `LC_*`."""


def environment(spec: HookSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """A hook's environment: the variables that it inherits from the host, and its own `env`."""
    if spec.inherit_env is True:
        inherited = dict(environ)
    else:
        more = spec.inherit_env or ()
        inherited = {
            name: environ[name] for name in environ if name in INHERITED or name.startswith("LC_") or name in more
        }
    return {**inherited, **spec.env}
