"""Turns a forked child of the launcher into the hook: session, streams, limits, environment, program."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import errno
import os
import resource

from .syscalls import RLIMIT_LOCKS, enter_user_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def become_hook(request: dict[str, Any], descriptors: list[int], report: int) -> NoReturn:
    """Become the hook. If a step fails, write the errno and the step to `report`, and exit."""
    step = "exec"
    try:
        os.setsid()
        for number, fd in enumerate(descriptors[:3]):
            os.dup2(fd, number)
        default_signals()
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
        if request["cwd"]:
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
    except Exception as error:  # noqa: BLE001 - every error is reported to the host
        number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None) or errno.EINVAL
        os.write(report, f"{number} {step}".encode())
    finally:
        os._exit(127)


def default_signals() -> None:
    """Reset signals that are ignored or blocked, by Python, or by a shell that started the host in the background."""
    for number in _signal.valid_signals():
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
