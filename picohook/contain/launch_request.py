"""The message that asks a launcher to start a process, and the errors that it answers with."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..process.plan import Plan
    from .limits import Row


def launch_request(plan: Plan, mark: int, rows: list[Row], group: str) -> dict[str, Any]:
    """The request for a launcher. Raises `ValueError` for an argument or variable that no process can have."""
    argv = [os.fsencode(argument) for argument in plan.argv]
    env = {os.fsencode(name): os.fsencode(value) for name, value in plan.env.items()}
    if any(b"\0" in text for text in (*argv, *env, *env.values())):
        raise ValueError("embedded null byte")
    if any(not name or b"=" in name for name in env):
        raise ValueError("illegal environment variable name")
    cwd = plan.cwd
    if cwd is None:
        with suppress(OSError):  # the host's directory may be gone; the launcher is still in it
            cwd = os.getcwd()
    return {
        "argv": argv,
        "env": env,
        "cwd": None if cwd is None else os.fsencode(cwd),
        "mark": mark,
        "limits": rows,
        "cgroup": group,
        "by_descriptor": plan.program is not None,
        "own_session": plan.session == "own",
        "own_users": any(row[0] == "processes" for row in rows),
    }


def launch_error(number: int, step: str) -> OSError:
    """The error for a start that failed with this errno at this step."""
    why = os.strerror(number)
    if step == "dir":
        why = f"its directory: {why}"
    elif step not in {"exec", "spawn"}:
        why = f"its limit on {step}: {why}"
    return OSError(number, why)


def launcher_ended() -> OSError:
    """The error for a start whose launcher ended. A later start may succeed."""
    return OSError(errno.EAGAIN, "its launcher ended")
