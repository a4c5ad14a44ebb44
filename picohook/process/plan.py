"""Plans the start of a hook: finds its program and checks that it can run, and makes its argv, environment and directory."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from ..errors import HookCrashedError, HookError, HookTimeoutError, PicohookError
from ..model.spec import Contain, HookSpec, Limits, ProcessSession, Sandbox, Stdio
from ..wire.platforms import runs_descriptors
from ..wire.regular_files import Identity, identity, open_regular
from .advice import missing_file, missing_program
from .environment import environment, search_path
from .threads import FileThreads

Seen = Mapping[str, Identity]
"""The files that a hook runs: for each path, the identity of the trusted file."""
Verify = Callable[[HookSpec], Seen | None]
"""Raises if a hook must not run with its files as they are. It is called in a thread, before the start. Unless it returned
None, it is called again before the hook is asked anything, and must return the same."""

T = TypeVar("T")

_SHEBANG_LIMIT = 256
_COMPILED = b"\x7fELF"
TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ETOOMANYREFS})
"""Errors of the machine, not of the hook. The last is that too many descriptors of this user are on their way."""


class ChangedError(HookCrashedError):
    """A hook's files changed while it was being started. The next start checks them again."""

    def __init__(self, name: str) -> None:
        super().__init__("its files changed while it was being started: it was asked nothing", hook=name)


class DelayedError(HookCrashedError):
    """The machine has no free descriptor, thread, process or memory. A later start may succeed."""


def raise_not_started(error: Exception, why: str, hook: str) -> NoReturn:
    """Raises `HookCrashedError` for the error of a start: a `DelayedError` if its cause may pass."""
    if isinstance(error, OSError) and error.errno in TRANSIENT:
        raise DelayedError(f"cannot be started now: {error.strerror or error}", hook=hook) from None
    raise HookCrashedError(f"cannot be started: {why}", hook=hook) from None


class OpenProgram:
    """An open compiled program. It is started by its descriptor, so that the checked file runs even if its path has changed.

    A script cannot be started this way, because its interpreter opens it again by its path.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Close the descriptor. This may be called twice."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close  # for a plan that was ready too late and was not used


@dataclass(frozen=True, slots=True)
class Plan:
    """A process to start: its program, environment, directory and containment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    contain: Contain = "best"
    limits: Limits | None = None
    sandbox: Sandbox | None = None
    stdio: Stdio = "pipe"
    session: ProcessSession = "shared"
    program: OpenProgram | None = None
    """The open program, if it was checked and can be started by its descriptor; None if it is started by its path."""
    missing: str = ""
    """Advice about a file that the command names and that does not exist. It matters if the process ends at once."""

    def close(self) -> None:
        if self.program is not None:
            self.program.close()


class Planner:
    """Plans the starts of one hook's command, and verifies its files before each start and after it, in threads.

    `trusted` is the hook whose files are verified, if the command is only a part of it.
    """

    def __init__(self, spec: HookSpec, verify: Verify | None, trusted: HookSpec | None = None) -> None:
        self._spec, self._verify, self._trusted = spec, verify, trusted or spec
        self._files = FileThreads()

    async def plan(self, deadline: float) -> tuple[Seen | None, Plan]:
        """The files that were verified, and the plan. Raises `HookError`: a `HookTimeoutError` at the deadline."""
        return await self._aside(self._verify_and_plan, deadline)

    async def require_unchanged(self, seen: Seen | None, deadline: float) -> None:
        """Verify again: a script started by its path may not be the one that was verified.

        Raises `ChangedError` if the files are others than `seen`, and as `plan` does.
        """
        if seen is not None and self._verify is not None:
            now = await self._aside(partial(self._verify, self._trusted), deadline)
            if now != seen:
                raise ChangedError(self._spec.name)

    def _verify_and_plan(self) -> tuple[Seen | None, Plan]:
        seen = None if self._verify is None else self._verify(self._trusted)
        return seen, plan(self._spec, os.environ, seen)

    async def _aside(self, work: Callable[[], T], deadline: float) -> T:
        try:
            return await self._files.run(work, deadline)
        except TimeoutError:
            raise HookTimeoutError("its files could not be read in time", hook=self._spec.name) from None
        except HookError:
            raise
        except PicohookError as error:
            raise HookCrashedError(str(error), hook=self._spec.name) from None
        except Exception as error:  # from the embedder's check
            raise_not_started(error, repr(error), self._spec.name)


def plan(spec: HookSpec, environ: Mapping[str, str], seen: Seen | None = None) -> Plan:
    """The plan for a hook. Raises `HookCrashedError` if it cannot run, `ChangedError` if its program is not the one in `seen`.

    The program is looked up once, with the host's PATH. The hook's own `env` and a later change of directory do not change
    which file runs. This reads files, so it may block.
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
            raise _cannot(spec, f"{found} does not exist{missing_program(program, found)}")
    else:
        places = search_path(spec, environ)
        on_path = shutil.which(program, path=places)
        if on_path is None:
            raise _cannot(spec, f"the command {program!r} is not on the PATH{missing_program(program, places)}")
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
        spec.session,
        program_itself,
        missing_file(arguments, cwd or "") if spec.run is None else "",
    )


def _here(spec: HookSpec, program: str) -> str:
    """The directory for a relative program; empty for an absolute one. Raises `HookCrashedError` if the directory is gone."""
    if os.path.isabs(program):
        return ""
    try:
        return os.getcwd()
    except OSError:
        raise _cannot(spec, "the host's working directory is gone, and its command is relative to it") from None


def _check_runnable(spec: HookSpec, path: str, expected: Identity | None) -> OpenProgram | None:
    """Raises `HookCrashedError` with a clear cause, also where the kernel would only say that a file is missing.

    Returns the open program if its identity is expected and it is compiled.
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
        return None  # an unreadable program may still run
    program = OpenProgram(descriptor)
    beginning = os.read(descriptor, _SHEBANG_LIMIT)
    if expected is not None and identity(status) != expected:
        raise ChangedError(spec.name)
    if expected is not None and runs_descriptors() and beginning.startswith(_COMPILED):
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
        raise _cannot(spec, f"the first line of {path} names the interpreter {interpreter!r}, which does not exist")


def _cannot(spec: HookSpec, why: str) -> HookCrashedError:
    return HookCrashedError(f"cannot be started: {why}", hook=spec.name)
