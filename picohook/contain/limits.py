"""Translates `limits` to rlimits, applied between fork and exec. The process count also needs a user namespace or a cgroup.

RLIMIT_NPROC alone counts all processes of a user, and does not apply to root. In the hook's own user namespace it counts only
the hook's processes (Linux 5.14). For root a control group counts them.
"""

import os
import re
import resource
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..model.spec import Limits
from ..process.spawn import NotAvailableError

COUNTS_BY_NAMESPACE = (5, 14)

Row = tuple[str, int, int, int]
"""The name of the setting, the number of the resource, and the soft and the hard limit."""


def rows(limits: Limits) -> list[Row]:
    """The resource limits, without the one on processes."""
    wanted = [
        # CPU time has two limits: at the soft one the hook gets SIGXCPU, which names the cause; at the hard one it is killed.
        ("cpu_seconds", resource.RLIMIT_CPU, limits.cpu_seconds, 1),
        ("open_files", resource.RLIMIT_NOFILE, limits.open_files, 0),
        ("file_size", resource.RLIMIT_FSIZE, limits.file_size, 0),
        ("memory", resource.RLIMIT_AS, limits.memory, 0),
    ]
    return [(name, number, value, value + more) for name, number, value, more in wanted if value is not None]


def counts_by_namespace() -> bool:
    """Whether RLIMIT_NPROC applies to this user, and counts only the processes of a user namespace."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return os.geteuid() != 0 and release is not None and (int(release[1]), int(release[2])) >= COUNTS_BY_NAMESPACE


def make_group(count: int) -> str:
    """Make a control group for at most `count` processes. Returns its directory. Raises `NotAvailableError`."""
    tried = []
    for base in _bases():
        group = f"{base}/picohook-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            os.mkdir(group)
            # Not "w", which would make a file where there is no such controller.
            with Path(group, "pids.max").open("r+") as file:
                file.write(str(count))
            return group
        except OSError as error:
            remove(group)
            tried.append(f"{base}: {error.strerror}")
    why = "; ".join(tried) or "there is none"
    raise NotAvailableError(f"its limit on processes needs a control group with the pids controller ({why})")


def remove(group: str) -> None:
    """Remove a control group, if it exists and is empty."""
    if group:
        with suppress(OSError):
            os.rmdir(group)


def _bases() -> Iterator[str]:
    """The directories in which a group may be made: the groups of this process, and with version 2 their parents."""
    try:
        with open("/proc/self/cgroup") as file:
            own = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
        with open("/proc/self/mountinfo") as file:
            mounts = [line.split() for line in file]
    except (OSError, ValueError):
        return
    for mount in mounts:
        root, point = mount[3], mount[4]
        kind, _, options = mount[mount.index("-") + 1 :]
        names = [""] if kind == "cgroup2" else [name for name in own if "pids" in name.split(",")]
        if kind not in {"cgroup", "cgroup2"} or (kind == "cgroup" and "pids" not in options.split(",")):
            continue
        for name in names:
            path = os.path.relpath(own.get(name, "/"), root)
            if path.startswith(".."):
                continue
            here = os.path.normpath(os.path.join(point, path))
            yield here
            if kind == "cgroup2" and here != point:
                yield os.path.dirname(here)
