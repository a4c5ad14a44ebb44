"""Starts a hook: process group, session, streams, limits, environment, program.

`posix_spawn` starts most hooks: it copies no memory. A hook with limits, a mark or a program that is started by its descriptor
needs code between fork and exec.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import errno
import os
import resource

from .syscalls import RLIMIT_LOCKS, enter_user_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


IGNORED = [number for number in _signal.valid_signals() if _signal.getsignal(number) == _signal.SIG_IGN]
"""The signals that Python ignores, and those that a shell ignores that started the host in the background."""


class StartError(OSError):
    """The hook was not started, because of this step."""

    def __init__(self, error: Exception, step: str) -> None:
        super().__init__(error_number(error), step)
        self.step = step


def start_hook(request: dict[str, Any], descriptors: list[int]) -> tuple[int, int]:
    """Start the hook as a child of this process, and change to its directory. Raises `StartError`, and `OSError` for others.

    Returns its pid, and a pipe that it writes the errno and the step of a failure to, and closes when its program runs; or -1
    if that runs already.
    """
    if request["mark"] or request["cgroup"] or request["own_users"] or request["limits"] or request["by_descriptor"]:
        readable, writable = os.pipe()  # a successful exec closes the write end
        try:
            pid = os.fork()
        except OSError:
            os.close(readable)
            raise
        else:
            if not pid:
                become_hook(request, descriptors, writable)
            return pid, readable
        finally:
            os.close(writable)
    step = "dir"
    try:
        os.chdir(request["cwd"])
        step = "exec"
        pid = os.posix_spawn(
            request["argv"][0],
            request["argv"],
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(descriptors[:3])],
            setsigdef=IGNORED,
            setsigmask=(),
            **({"setsid": True} if request["own_session"] else {"setpgroup": 0}),
        )
    except Exception as error:  # every error is reported to the host
        raise StartError(error, step) from error
    return pid, -1


def become_hook(request: dict[str, Any], descriptors: list[int], report: int) -> NoReturn:
    """Become the hook. If a step fails, write the errno and the step to `report`, and exit."""
    step = "exec"
    try:
        if request["own_session"]:
            os.setsid()
        else:
            os.setpgid(0, 0)
        for number, fd in enumerate(descriptors[:3]):
            os.dup2(fd, number)
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        if request["mark"]:
            _, most = resource.getrlimit(RLIMIT_LOCKS)
            # If the host is itself a hook, the hard limit keeps that hook's mark: this process belongs to both.
            resource.setrlimit(
                RLIMIT_LOCKS, (request["mark"], request["mark"] if most == resource.RLIM_INFINITY else most)
            )
        step = "processes"
        if request["cgroup"]:
            with open(f"{request['cgroup']}/cgroup.procs", "w") as file:
                file.write("0")
        if request["own_users"]:
            enter_user_namespace()
        step = "dir"
        os.chdir(request["cwd"])
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
        os.write(report, f"{error_number(error)} {step}".encode())
    finally:
        os._exit(127)


def error_number(error: Exception) -> int:
    """The errno of an error."""
    return errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None) or errno.EINVAL
