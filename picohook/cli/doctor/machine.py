"""Checks how this machine can contain, limit and sandbox hooks, with a program that does nothing."""

import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio

from ...contain.sandbox import why_it_fails
from ...contain.tiers import Containment
from ...model.spec import Limits, Sandbox
from ...observe.log import Log
from ...process.plan import Plan
from ...protocol import peer
from ...transport.event_loop import current_reactor
from ...wire.version import VERSION
from .findings import Finding, Level

MACHINE = "this machine"
_SOME = 64
"""A limit on processes that a program that does nothing can keep."""
_LACKS_NAMESPACE = (
    'allow user namespaces, or run as root; with contain = "required", hooks do not start without a namespace'
)
_WORKS = {
    "limits": "memory, cpu time, open files, file size, processes",
    "sandbox": "files and network can be closed to hooks",
}
"""For settings of hooks, what is found if all tries of them work."""
_TRIES: tuple[tuple[str, Limits | Sandbox, str, str], ...] = (
    ("limits", Limits(open_files=_SOME), "hooks cannot be limited", "remove `limits`"),
    ("limits", Limits(processes=_SOME), "all limits work but `processes`", "remove `processes` from `limits`"),
    ("sandbox", Sandbox(), "hooks cannot be sandboxed", "install bubblewrap, or remove `sandbox`"),
)
"""A setting and its value, what is found if a program with it does not start, and what to do."""


async def examine(time_limit: float) -> AsyncIterator[Finding]:
    """Yields the findings about the machine."""
    system = f"{platform.system()} {platform.release()}"
    core = "" if peer.__file__.endswith(".py") else " with a compiled core"
    version = f"picohook {VERSION}{core}, Python {platform.python_version()}, {system}"
    yield Finding(Level.OK, MACHINE, "version", version)
    held = Containment(current_reactor(), Log())
    try:
        yield _containment(held, await _lacks(held, time_limit))
        for setting, works in _WORKS.items():
            yield await _setting(held, setting, works, time_limit)
    finally:
        with anyio.CancelScope(shield=True):
            await held.aclose()


def _containment(held: Containment, why: str) -> Finding:
    lacking = "; ".join(f"no {kind}: {reason}" for kind, reason in held.unable.items())
    match held.tier:
        case None:
            hint = "hooks do not start here: raise the process limits of this user and this machine"
            return Finding(Level.ERROR, MACHINE, "containment", f"no process can be started: {why}", hint)
        case "namespace":
            message = "namespace: processes that a hook starts end with it, even if it is hostile"
            return Finding(Level.OK, MACHINE, "containment", message)
        case "sweep":
            message = f"sweep: processes that a hook starts end with it, unless the hook is hostile ({lacking})"
            return Finding(Level.NOTE, MACHINE, "containment", message, _LACKS_NAMESPACE)
    message = f"group: processes that leave a hook's process group outlive it ({lacking or 'this is not Linux'})"
    return Finding(Level.WARNING, MACHINE, "containment", message, _LACKS_NAMESPACE)


async def _setting(held: Containment, setting: str, works: str, time_limit: float) -> Finding:
    for tried, value, message, way in _TRIES:
        if tried == setting and (why := await _lacks(held, time_limit, **{setting: value})):
            hint = f"{way} on this machine: a hook that has it does not start"
            return Finding(Level.NOTE, MACHINE, setting, f"{message}: {why}", hint)
    return Finding(Level.OK, MACHINE, setting, works)


async def _lacks(held: Containment, time_limit: float, **settings: Any) -> str:
    """Try to start a program that does nothing, with these settings. Returns the reason if that fails; empty if it works."""
    plan = Plan((shutil.which("true") or sys.executable,), os.environ, None, **settings)
    try:
        return await why_it_fails(plan, held, current_reactor().now() + time_limit, time_limit)
    except (OSError, ValueError, TimeoutError) as error:
        return str(error) or "it took too long"
