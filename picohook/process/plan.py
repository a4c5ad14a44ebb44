"""What to run for a hook: a pure step from its settings and the host's environment to argv, environment and directory."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HookCrashedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..spec import Contain, HookSpec, Limits, Sandbox, Stdio

PASSED_ON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "SHELL", "TZ", "XDG_RUNTIME_DIR"}
)
"""What of the host's environment a hook sees if nothing more is said; and LC_*."""

_SHEBANG_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that starting the process needs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    contain: Contain = "best"
    limits: Limits | None = None
    sandbox: Sandbox | None = None
    stdio: Stdio = "pipe"


def plan(spec: HookSpec, environ: Mapping[str, str]) -> Plan:
    """The plan for a hook, or `HookCrashedError` with the reason why it cannot be run.

    The program is looked up once, here, with the host's PATH: what the hook's own `env` or a later change of directory say
    does not change which file runs.
    """
    command = ("sh", "-c", spec.run) if spec.run is not None else spec.command
    if not command:
        raise _cannot(spec, "it has no command")
    program, *arguments = command
    cwd = os.path.abspath(spec.dir) if spec.dir is not None else None
    if cwd is not None and not os.path.isdir(cwd):
        raise _cannot(spec, f"its directory {cwd} does not exist")
    if os.sep in program:
        found = os.path.join(cwd or _here(spec, program), program)
        if not os.path.exists(found):
            raise _cannot(spec, f"{found} does not exist")
    else:
        on_path = shutil.which(program, path=environ.get("PATH", os.defpath))
        if on_path is None:
            raise _cannot(spec, f"the command {program!r} is not on the PATH")
        found = os.path.abspath(on_path)
    _check_runnable(spec, found)
    environment = _environment(spec, environ)
    return Plan((found, *arguments), environment, cwd, spec.contain, spec.limits, spec.sandbox, spec.stdio)


def _here(spec: HookSpec, program: str) -> str:
    """What a relative program is looked up from."""
    if os.path.isabs(program):
        return ""
    try:
        return os.getcwd()
    except OSError:
        raise _cannot(spec, "the host's working directory is gone, and its command is relative to it") from None


def _check_runnable(spec: HookSpec, path: str) -> None:
    """Say what the kernel would not: a missing interpreter and a CRLF line look to it like a missing file."""
    if os.path.isdir(path):
        raise _cannot(spec, f"{path} is a directory")
    if not os.access(path, os.X_OK):
        raise _cannot(spec, f"{path} is not executable: chmod +x it, or name its interpreter in the command")
    try:
        with open(path, "rb") as file:
            first = file.read(_SHEBANG_LIMIT).split(b"\n", 1)[0]
    except OSError:
        return
    if not first.startswith(b"#!"):
        return
    if first.endswith(b"\r"):
        raise _cannot(spec, f"the first line of {path} ends in CRLF: save it with Unix line ends")
    words = first[2:].split()
    if not words or not Path(os.fsdecode(words[0])).exists():
        interpreter = os.fsdecode(words[0]) if words else "nothing"
        raise _cannot(spec, f"the first line of {path} names {interpreter!r} as its interpreter, which does not exist")


def _cannot(spec: HookSpec, why: str) -> HookCrashedError:
    return HookCrashedError(f"cannot be started: {why}", hook=spec.name)


def _environment(spec: HookSpec, environ: Mapping[str, str]) -> dict[str, str]:
    if spec.inherit_env is True:
        kept = dict(environ)
    else:
        more = spec.inherit_env or ()
        kept = {
            name: value
            for name, value in environ.items()
            if name in PASSED_ON or name.startswith("LC_") or name in more
        }
    return {**kept, **spec.env}
