"""Starts a hook: process group, session, streams, limits, environment, program.

`posix_spawn` starts most hooks: it copies no memory. A hook with limits, or a program that is started by its descriptor, needs
code between fork and exec.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import errno
import os
import resource

from .syscalls import enter_user_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class StartError(OSError):
    """The hook was not started, because of this step."""

    def __init__(self, number: int, step: str) -> None:
        super().__init__(number, step)
        self.step = step


def start_hook(request: dict[str, Any], descriptors: list[int]) -> int:
    """Start the hook as a child of this process, and change to its directory. Returns its pid. Raises `StartError`.

    When this returns, its program runs.
    """
    if request["cgroup"] or request["own_users"] or request["limits"] or request["by_descriptor"]:
        return _fork(request, descriptors)
    step = "dir"
    try:
        os.chdir(request["cwd"] or b".")
        step = "exec"
        return os.posix_spawn(
            request["argv"][0],
            request["argv"],
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(descriptors[:3])],
            setsigdef=_ignored(),
            setsigmask=(),
            **({"setsid": True} if request["own_session"] else {"setpgroup": 0}),
        )
    except Exception as error:  # every error is reported to the host
        raise StartError(_errno_of(error), step) from error


def _fork(request: dict[str, Any], descriptors: list[int]) -> int:
    readable, writable = os.pipe()  # a successful exec closes the write end
    try:
        pid = os.fork()
        if not pid:
            _become_hook(request, descriptors, writable)
    except OSError as error:
        raise StartError(_errno_of(error), "spawn") from error
    finally:
        os.close(writable)
    failure = os.read(readable, 256).decode().split()
    os.close(readable)
    if failure:
        os.waitpid(pid, 0)
        raise StartError(int(failure[0]), failure[1])
    return pid


def _become_hook(request: dict[str, Any], descriptors: list[int], report: int) -> NoReturn:
    """Become the hook. If a step fails, write the errno and the step to `report`, and exit."""
    step = "exec"
    try:
        if request["own_session"]:
            os.setsid()
        else:
            os.setpgid(0, 0)
        for number, fd in enumerate(descriptors[:3]):
            os.dup2(fd, number)
        for number in _ignored():
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        step = "processes"
        if request["cgroup"]:
            with open(f"{request['cgroup']}/cgroup.procs", "w") as file:
                file.write("0")
        if request["own_users"]:
            enter_user_namespace()
        step = "dir"
        os.chdir(request["cwd"] or b".")
        for step, number, soft, hard in request["limits"]:  # noqa: B007 - the report names it
            _, most = resource.getrlimit(number)
            # A lower inherited limit stays.
            both = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
            resource.setrlimit(number, both)
        step = "exec"
        # The exec closes the program's descriptor.
        program = descriptors[3] if request["by_descriptor"] else request["argv"][0]
        os.execve(program, request["argv"], request["env"])  # noqa: S606 - no shell is wanted
    except Exception as error:  # every error is reported to the host
        os.write(report, f"{_errno_of(error)} {step}".encode())
    finally:
        os._exit(127)


def _ignored() -> list[int]:
    """The signals that this process ignores: those of Python, of the launcher, and of a shell that started the host."""
    return [number for number in _signal.valid_signals() if _signal.getsignal(number) == _signal.SIG_IGN]


def _errno_of(error: Exception) -> int:
    return errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None) or errno.EINVAL
