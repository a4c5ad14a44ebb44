"""Checks how this machine can contain hooks, with a program that does nothing."""

import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator

import anyio

from ...contain.sandbox import why_it_fails
from ...contain.tiers import Containment
from ...observe.log import Log
from ...process.plan import Plan
from ...protocol import peer
from ...transport.event_loop import current_reactor
from ...wire.version import VERSION
from .findings import Finding, Level

MACHINE = "this machine"
_LACKS_NAMESPACE = (
    'allow user namespaces, or run as root; with contain = "required", hooks do not start without a namespace'
)


async def examine(time_limit: float) -> AsyncIterator[Finding]:
    """Yields the findings about the machine."""
    system = f"{platform.system()} {platform.release()}"
    core = "" if peer.__file__.endswith(".py") else " with a compiled core"
    version = f"picohook {VERSION}{core}, Python {platform.python_version()}, {system}"
    yield Finding(Level.OK, MACHINE, "version", version)
    held = Containment(current_reactor(), Log())
    try:
        yield _containment(held, await _lacks(held, time_limit))
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


async def _lacks(held: Containment, time_limit: float) -> str:
    """Try to start a program that does nothing. Returns the reason if that fails; empty if it works."""
    plan = Plan((shutil.which("true") or sys.executable,), os.environ, None)
    try:
        return await why_it_fails(plan, held, current_reactor().now() + time_limit, time_limit)
    except (OSError, ValueError, TimeoutError) as error:
        return str(error) or "it took too long"
