"""A hook that is a shell command, run anew for each question."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import HookCrashedError, HookTimeoutError
from ...process.environment import environment
from ...process.plan import ChangedError, plan
from ...process.run_once import run_once
from ...process.threads import FileThreads
from ...protocol.codec import encode
from ...wire.text import last_words
from . import jcli_contract, native_contract
from .hook import OneShotHook, read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...model.spec import HookSpec
    from ...process.plan import Plan, Seen
    from ..base import HostServices

T = TypeVar("T")

SHOWN_TAIL = 400
"""How many characters of stderr an error shows."""


class CommandHook(OneShotHook):
    """Runs its command with `sh -c`: the context is on stdin, the result on stdout. An exit code other than 0 is a failure.

    All processes that it started end with the command, at its timeout at the latest.
    """

    def __init__(self, spec: HookSpec) -> None:
        super().__init__(spec)
        self.contract = jcli_contract if isinstance(spec, jcli_contract.JcliSpec) else native_contract

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._files = FileThreads()
        self._planned: tuple[str | None, Plan] | None = None
        """The last plan, and the PATH that it was made for."""

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        spec, host = self.spec, self._host
        seen, planned = await self._plan(deadline)
        env = {**planned.env, **self.contract.environment(event, self.cwd)}
        try:
            finished = await run_once(
                host.reactor,
                host.spawner,
                replace(planned, env=env),
                encode(context) + b"\n",
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
            if await self._aside(partial(host.verify, spec), deadline) != seen:
                raise ChangedError(spec.name)
        if finished.exit_code:
            code, tail = finished.exit_code, finished.stderr_tail
            ended = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            said = f"; it said: {last_words(tail, SHOWN_TAIL)}" if tail else ""
            raise HookCrashedError(f"it {ended}{said}", hook=spec.name, exit_code=code, stderr_tail=tail)
        return read_result(finished.stdout)

    async def _plan(self, deadline: float) -> tuple[Seen | None, Plan]:
        """The verified files, and the plan of the start. Without a `verify`, the last plan is reused."""
        verify, spec, path = self._host.verify, self.spec, os.environ.get("PATH")
        if verify is None and self._planned is not None and self._planned[0] == path:
            return None, replace(self._planned[1], env=environment(spec, os.environ))

        def look() -> tuple[Seen | None, Plan]:
            seen = None if verify is None else verify(spec)
            return seen, plan(spec, os.environ)

        seen, planned = await self._aside(look, deadline)
        self._planned = path, planned
        return seen, planned

    async def _aside(self, work: Callable[[], T], deadline: float) -> T:
        try:
            return await self._files.run(work, deadline)
        except TimeoutError:
            raise HookTimeoutError("its files could not be read in time", hook=self.name) from None
