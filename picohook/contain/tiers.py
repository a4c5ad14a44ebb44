"""What holds a hook's descendants: which tier there is, and the host's side of its launchers (`launcher_program.py`).

Nothing here is on the way of a call. Starting a hook costs one message to a launcher and one back, its end one message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from ..process.spawn import Direct, NotAvailableError
from . import limits
from .launcher import Launcher, UnableError
from .sandbox import Sandboxes

if TYPE_CHECKING:
    from ..observe.log import Log
    from ..process.plan import Plan
    from ..process.spawn import Process, Spawner, Streams
    from ..transport.reactor import Reactor

Tier = Literal["namespace", "sweep", "group"]

TIERS: tuple[Tier, ...] = ("namespace", "sweep", "group")
"""The best first."""
ALLOWED: dict[str, tuple[Tier, ...]] = {
    "best": TIERS,
    "required": ("namespace",),
    "sweep": ("sweep",),
    "group": ("group",),
}
"""What each value of `contain` takes."""


class Containment:
    """How the hooks of one host are started, and held together. One launcher a tier in use, and mostly that is one."""

    _lacking: ClassVar[dict[str, str]] = {}
    """What the machine does not have, and why. It need not be tried again by every host."""

    def __init__(self, reactor: Reactor, log: Log) -> None:
        self.unable: dict[str, str] = dict(self._lacking)
        """The tiers that cannot be had, and why."""
        self._reactor = reactor
        self._log = log
        self._launchers: list[Launcher] = []
        self._direct = Direct(reactor)
        self._sandboxes = Sandboxes()
        self._in_use: set[Tier] = set()

    @property
    def tier(self) -> Tier | None:
        """What holds of every hook that was started: the least of their tiers. None: none was."""
        return max(self._in_use, key=TIERS.index, default=None)

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> Process:
        """Start a hook the way its settings ask for. As `Spawner.spawn`; what is not to be had is a `NotAvailableError`."""
        tier, spawner = await self._spawner(ALLOWED[plan.contain], deadline)
        group = ""
        rows: list[limits.Row] = []
        if plan.limits is not None:
            group, rows = self._limit(plan, tier)
        try:
            if plan.sandbox is not None:
                prefix = await self._sandboxes.prefix(plan, spawner, deadline)
                plan = replace(plan, argv=(*prefix, *plan.argv), program=None)  # which the sandbox finds by its path
            if isinstance(spawner, Launcher):
                process: Process = await spawner.launch(plan, streams, deadline, rows, group)
            else:
                process = await spawner.spawn(plan, streams, deadline)
        except BaseException:
            limits.remove(group)
            raise
        self._in_use.add(tier)
        return process

    async def aclose(self) -> None:
        """End the launchers, and with them whatever is still there of any hook."""
        launchers, self._launchers = self._launchers, []
        for launcher in launchers:
            await launcher.aclose()

    async def _spawner(self, allowed: tuple[Tier, ...], deadline: float) -> tuple[Tier, Spawner]:
        for tier in allowed:
            if tier == "group":
                return tier, self._direct
            if tier in self.unable:
                continue
            try:
                launcher = next((one for one in self._launchers if one.tier == tier and not one.gone), None)
                if launcher is None:
                    launcher = Launcher(self._reactor, self._log, tier)
                    self._launchers.append(launcher)
                await launcher.ready(deadline)
            except UnableError as error:
                if tier not in self.unable:
                    self._log.warning("there is no such containment here", tier=tier, why=str(error))
                self.unable[tier] = str(error)
                if error.lasting:
                    self._lacking[tier] = str(error)
            else:
                return tier, launcher
        why = "; ".join(f"{tier}: {self.unable[tier]}" for tier in allowed)
        raise NotAvailableError(f"the containment that it asks for is not to be had ({why})")

    def _limit(self, plan: Plan, tier: Tier) -> tuple[str, list[limits.Row]]:
        """A control group or none, and the resource limits."""
        assert plan.limits is not None
        if tier == "group":
            raise NotAvailableError("limits are set by a launcher, and it has none (containment: group)")
        rows = limits.rows(plan.limits)
        if plan.limits.processes is None:
            return "", rows
        if tier == "namespace" and limits.counts_by_namespace():
            return "", [*rows, *limits.process_rows(plan.limits.processes)]
        return limits.make_group(plan.limits.processes), rows
