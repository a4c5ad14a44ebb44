"""Runs the command of a hook, again and again."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...errors import HookCrashedError, HookTimeoutError
from ...process.environment import environment
from ...process.plan import ChangedError, plan
from ...process.run_once import run_once
from ...process.threads import FileThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...model.spec import HookSpec
    from ...process.plan import Plan, Seen
    from ...process.run_once import FinishedProcess
    from ..base import HostServices

T = TypeVar("T")


class Runner:
    """Plans the start of a hook's command, and runs it to its end.

    `trusted` is the hook whose files are verified, if the command is only a part of it.
    """

    def __init__(self, spec: HookSpec, host: HostServices, trusted: HookSpec | None = None) -> None:
        self._spec, self._host, self._trusted = spec, host, trusted or spec
        self._files = FileThreads()
        self._planned: tuple[str | None, Plan] | None = None
        """The last plan, and the PATH that it was made for."""

    async def run(
        self, stdin: bytes, deadline: float, more: Mapping[str, str], hidden: tuple[str, ...] = ()
    ) -> FinishedProcess:
        """Run the command with `more` variables, without those whose names begin with one of `hidden`.

        Raises `HookError` if it cannot be started, is late, or writes too much, and if its files changed meanwhile.
        """
        spec, host = self._spec, self._host
        seen, planned = await self._plan(deadline)
        env = (
            {name: value for name, value in planned.env.items() if not name.startswith(hidden)}
            if hidden
            else planned.env
        )
        try:
            finished = await run_once(
                host.reactor,
                host.spawner,
                replace(planned, env={**env, **more}),
                stdin,
                deadline=deadline,
                name=spec.name,
                log=host.log,
                max_output=spec.max_line_bytes,
                tap=host.tap,
            )
        except HookCrashedError:
            self._planned = None  # the next plan finds and names the cause
            raise
        if seen is not None:
            assert host.verify is not None
            if await self._aside(partial(host.verify, self._trusted), deadline) != seen:
                raise ChangedError(spec.name)
        return finished

    async def _plan(self, deadline: float) -> tuple[Seen | None, Plan]:
        """The verified files, and the plan of the start. Without a `verify`, the last plan is reused."""
        verify, spec, path = self._host.verify, self._spec, os.environ.get("PATH")
        if verify is None and self._planned is not None and self._planned[0] == path:
            return None, replace(self._planned[1], env=environment(spec, os.environ))

        def look() -> tuple[Seen | None, Plan]:
            seen = None if verify is None else verify(self._trusted)
            return seen, plan(spec, os.environ)

        seen, planned = await self._aside(look, deadline)
        self._planned = path, planned
        return seen, planned

    async def _aside(self, work: Callable[[], T], deadline: float) -> T:
        try:
            return await self._files.run(work, deadline)
        except TimeoutError:
            raise HookTimeoutError("its files could not be read in time", hook=self._spec.name) from None
