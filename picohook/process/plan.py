"""What to run for a hook: a pure step from its settings and the host's environment to argv, environment and directory."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HookCrashedError
from ..wire.regular_files import identity, open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..model.spec import Contain, HookSpec, Limits, Sandbox, Stdio
    from ..wire.regular_files import Identity

    Seen = Mapping[str, Identity]
    """The files that a hook runs, by their paths, as they were when they were found to be trusted."""
    Verify = Callable[[HookSpec], Seen | None]
    """Raises if a hook must not be run as its files are now. Called in a thread, and again before the hook decides anything,
    unless it has seen no file: then it has to see the same."""

PASSED_ON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "SHELL", "TZ", "XDG_RUNTIME_DIR"}
)
"""What of the host's environment a hook sees if nothing more is said; and LC_*."""

_SHEBANG_LIMIT = 256
_COMPILED = b"\x7fELF"


class ChangedError(HookCrashedError):
    """What a hook runs changed while it was being started. Worth another try, which looks at it anew."""

    def __init__(self, name: str) -> None:
        super().__init__("what it runs changed while it was being started: it was asked nothing", hook=name)


class Program:
    """A compiled program, open: what was looked at is what runs, whatever its path means by then.

    A script cannot be handed over like this. Its interpreter opens it again, and a script finds its neighbours by its path.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Twice is fine."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close  # a plan that came too late for anybody to use it


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
    program: Program | None = None
    """The program itself, where it was looked at and can be handed over; else it is found by `argv`."""

    def close(self) -> None:
        """Let go of the program."""
        if self.program is not None:
            self.program.close()


def plan(spec: HookSpec, environ: Mapping[str, str], seen: Seen | None = None) -> Plan:
    """The plan for a hook, or `HookCrashedError` with the reason why it cannot be run.

    The program is looked up once, here, with the host's PATH: what the hook's own `env` or a later change of directory say
    does not change which file runs. It looks at files, which may take its time. `ChangedError` says that the program is
    not what was `seen`.
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
    expected = (seen or {}).get(os.path.normpath(found))
    program_itself = _check_runnable(spec, found, expected)
    return Plan(
        (found, *arguments),
        environment(spec, environ),
        cwd,
        spec.contain,
        spec.limits,
        spec.sandbox,
        spec.stdio,
        program_itself,
    )


def _here(spec: HookSpec, program: str) -> str:
    """What a relative program is looked up from."""
    if os.path.isabs(program):
        return ""
    try:
        return os.getcwd()
    except OSError:
        raise _cannot(spec, "the host's working directory is gone, and its command is relative to it") from None


def _check_runnable(spec: HookSpec, path: str, expected: Identity | None) -> Program | None:
    """Say what the kernel would not: a missing interpreter and a CRLF line look to it like a missing file.

    Gives the program, if one was expected and it is compiled.
    """
    with suppress(OSError):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "neither a program nor a script: it is not a regular file"
            raise _cannot(spec, f"{path} is {kind}")
    if not os.access(path, os.X_OK):
        raise _cannot(spec, f"{path} is not executable: chmod +x it, or name its interpreter in the command")
    try:
        descriptor, status = open_regular(path)
    except OSError:
        return None  # that it cannot be read does not keep it from being run
    program = Program(descriptor)
    beginning = os.read(descriptor, _SHEBANG_LIMIT)
    if expected is not None and identity(status) != expected:
        raise ChangedError(spec.name)
    if expected is not None and beginning.startswith(_COMPILED):
        return program
    program.close()
    _check_interpreter(spec, path, beginning.split(b"\n", 1)[0])
    return None


def _check_interpreter(spec: HookSpec, path: str, first: bytes) -> None:
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


def environment(spec: HookSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """What a hook sees of the host's environment, and its own."""
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
