"""Checks how this machine can contain, limit and sandbox hooks, with a program that does nothing."""

import os
import platform
import shutil
import signal
import sys
from collections.abc import AsyncIterator

import anyio

from ...contain.tiers import Containment
from ...model.spec import Limits, Sandbox
from ...observe.log import Log
from ...process.plan import Plan
from ...process.spawn import NotAvailableError
from ...protocol import peer
from ...transport.event_loop import current_reactor
from ...wire.version import VERSION
from .findings import Finding, Level

MACHINE = "this machine"
_SOME = 64
"""A limit on processes that a program that does nothing can keep."""


async def examine(time_limit: float) -> AsyncIterator[Finding]:
    """Yields the findings about the machine."""
    system = f"{platform.system()} {platform.release()}"
    core = "" if peer.__file__.endswith(".py") else " with a compiled core"
    version = f"picohook {VERSION}{core}, Python {platform.python_version()}, {system}"
    yield Finding(Level.OK, MACHINE, "version", version)
    machine = _Machine(time_limit)
    try:
        yield await machine.containment()
        yield await machine.limits()
        yield await machine.sandbox()
    finally:
        with anyio.CancelScope(shield=True):
            await machine.close()


class _Machine:
    def __init__(self, time_limit: float) -> None:
        self._reactor = current_reactor()
        self._held = Containment(self._reactor, Log())
        self._time_limit = time_limit
        self._idle = (shutil.which("true") or sys.executable,)

    async def close(self) -> None:
        await self._held.aclose()

    async def containment(self) -> Finding:
        why = await self._lacks(Plan(self._idle, os.environ, None))
        tier = self._held.tier
        lacking = "; ".join(f"no {kind}: {reason}" for kind, reason in self._held.unable.items())
        if tier is None:
            hint = "hooks do not start here: raise the process limits of this user and this machine"
            return Finding(Level.ERROR, MACHINE, "containment", f"no process can be started: {why}", hint)
        if tier == "namespace":
            return Finding(
                Level.OK,
                MACHINE,
                "containment",
                "namespace: processes that a hook starts end with it, even if it is hostile",
            )
        hint = (
            'allow user namespaces, or run as root; with contain = "required", hooks do not start without a namespace'
        )
        if tier == "sweep":
            message = f"sweep: processes that a hook starts end with it, unless the hook is hostile ({lacking})"
            return Finding(Level.NOTE, MACHINE, "containment", message, hint)
        message = f"group: processes that leave a hook's process group outlive it ({lacking or 'this is not Linux'})"
        return Finding(Level.WARNING, MACHINE, "containment", message, hint)

    async def limits(self) -> Finding:
        why = await self._lacks(Plan(self._idle, os.environ, None, limits=Limits(open_files=_SOME)))
        if why:
            hint = "remove `limits` on this machine: a hook that has them does not start"
            return Finding(Level.NOTE, MACHINE, "limits", f"hooks cannot be limited: {why}", hint)
        why = await self._lacks(Plan(self._idle, os.environ, None, limits=Limits(processes=_SOME)))
        if why:
            hint = "remove `processes` from `limits` on this machine: a hook that has it does not start"
            return Finding(Level.NOTE, MACHINE, "limits", f"all limits work but `processes`: {why}", hint)
        return Finding(Level.OK, MACHINE, "limits", "memory, cpu time, open files, file size, processes")

    async def sandbox(self) -> Finding:
        why = await self._lacks(Plan(self._idle, os.environ, None, sandbox=Sandbox()))
        if not why:
            return Finding(Level.OK, MACHINE, "sandbox", "files and network can be closed to hooks")
        hint = "install bubblewrap, or remove `sandbox` on this machine: a hook that has it does not start"
        return Finding(Level.NOTE, MACHINE, "sandbox", f"hooks cannot be sandboxed: {why}", hint)

    async def _lacks(self, plan: Plan) -> str:
        """Try to start a process with this plan. Returns the reason if that fails; empty if it works."""
        ended = anyio.Event()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            process = await self._held.spawn(plan, (null, null, null), self._reactor.now() + self._time_limit)
            process.when_ended(ended.set)
            try:
                with anyio.move_on_after(self._time_limit):
                    await ended.wait()
            finally:
                process.signal(signal.SIGKILL)
        except NotAvailableError as error:
            return str(error)
        except (OSError, ValueError, TimeoutError) as error:
            return str(error) or "it took too long"
        finally:
            os.close(null)
        return "" if process.exit_code == 0 else f"a program that does nothing ended with {process.exit_code}"
