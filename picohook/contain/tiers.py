"""Chooses the tier of containment for each hook, and starts hooks with it.

Calls do not pass through here. A hook's start takes one message to a launcher and one back, and its end one message.
"""

import resource
from dataclasses import replace
from typing import ClassVar, Literal

from ..observe.log import Log
from ..process.group import GroupSpawner
from ..process.plan import Plan
from ..process.spawn import NotAvailableError, SpawnedProcess, Spawner, Streams
from ..transport.reactor import Reactor
from . import limits
from .launcher import Launcher
from .launcher_start import TierUnavailableError
from .sandbox import Sandboxes

Tier = Literal["namespace", "sweep", "group"]

TIERS: tuple[Tier, ...] = ("namespace", "sweep", "group")
"""All tiers, the strongest first."""
ALLOWED: dict[str, tuple[Tier, ...]] = {
    "best": TIERS,
    "required": ("namespace",),
    "sweep": ("sweep",),
    "group": ("group",),
}
"""The tiers that each value of `contain` accepts."""


class Containment:
    """Starts the hooks of one host. Each tier in use has one launcher, and usually only one tier is in use."""

    _lacking: ClassVar[dict[str, str]] = {}
    """The tiers that this machine lacks, and why. All hosts of the process share it, to try each tier once."""

    def __init__(self, reactor: Reactor, log: Log) -> None:
        self.unable: dict[str, str] = dict(self._lacking)
        """The tiers that are unavailable, and why."""
        self._reactor = reactor
        self._log = log
        self._launchers: list[Launcher] = []
        self._group = GroupSpawner(reactor)
        self._sandboxes = Sandboxes()
        self._in_use: set[Tier] = set()

    @property
    def tier(self) -> Tier | None:
        """The weakest tier of all started hooks; None before the first start."""
        return max(self._in_use, key=TIERS.index, default=None)

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> SpawnedProcess:
        """Start a hook as `Spawner.spawn` does, with the containment, limits and sandbox that it asks for.

        Raises `NotAvailableError` if this machine cannot provide them.
        """
        tier, spawner = await self._spawner(ALLOWED[plan.contain], deadline)
        group = ""
        rows: list[limits.Row] = []
        if plan.limits is not None:
            group, rows = self._limit(plan, tier)
        try:
            if plan.sandbox is not None:
                prefix = await self._sandboxes.prefix(plan, spawner, deadline)
                # It finds the program by its path.
                plan = replace(plan, argv=(*prefix, *plan.argv), program=None, sandbox=None)
            if isinstance(spawner, Launcher):
                process: SpawnedProcess = await spawner.spawn(plan, streams, deadline, rows, group)
            else:
                process = await spawner.spawn(plan, streams, deadline)
        except BaseException:
            limits.remove(group)
            raise
        self._in_use.add(tier)
        return process

    async def aclose(self) -> None:
        """Stop the launchers, and with them all remaining processes of hooks."""
        launchers, self._launchers = self._launchers, []
        for launcher in launchers:
            await launcher.aclose()

    async def _spawner(self, allowed: tuple[Tier, ...], deadline: float) -> tuple[Tier, Spawner]:
        for tier in allowed:
            if tier == "group":
                return tier, self._group
            if tier in self.unable:
                continue
            try:
                launcher = next((one for one in self._launchers if one.tier == tier and not one.gone), None)
                if launcher is None:
                    launcher = Launcher(self._reactor, self._log, tier)
                    self._launchers.append(launcher)
                await launcher.ready(deadline)
            except TierUnavailableError as error:
                if tier not in self.unable:
                    self._log.warning("this machine cannot provide a tier of containment", tier=tier, why=str(error))
                self.unable[tier] = str(error)
                if error.lasting:
                    self._lacking[tier] = str(error)
            else:
                return tier, launcher
        why = "; ".join(f"{tier}: {self.unable[tier]}" for tier in allowed)
        raise NotAvailableError(f"this machine cannot provide the containment it asks for: {why}")

    def _limit(self, plan: Plan, tier: Tier) -> tuple[str, list[limits.Row]]:
        """The directory of a control group (empty without one) and the resource limits. Raises `NotAvailableError`."""
        assert plan.limits is not None
        if tier == "group":
            raise NotAvailableError("limits need a launcher, and the containment `group` has none")
        rows = limits.rows(plan.limits)
        most = plan.limits.processes
        if most is None:
            return "", rows
        if tier == "namespace" and limits.counts_by_namespace():
            return "", [*rows, ("processes", resource.RLIMIT_NPROC, most, most)]
        return limits.make_group(most), rows
