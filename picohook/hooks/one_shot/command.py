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
from .base import OneShotHook
from .contract import read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...process.plan import Plan, Seen
    from ..base import Site

T = TypeVar("T")

SHOWN_TAIL = 400
"""Characters of stderr that an error shows."""


class CommandHook(OneShotHook):
    """`sh -c` its command: the context on stdin, the result on stdout, and an exit code other than 0 is a failure.

    The whole tree of the command is ended with it, at its timeout at the latest.
    """

    def open(self, site: Site) -> None:
        super().open(site)
        self._files = FileThreads()
        self._kept: tuple[str | None, Plan] | None = None

    async def answer(self, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        spec, site = self.spec, self._site
        seen, planned = await self._look(deadline)
        env = {**planned.env, "JCLI_HOOK_EVENT": context["event"], "JCLI_CWD": self.cwd}
        try:
            finished = await run_once(
                site.reactor,
                site.spawner,
                replace(planned, env=env),
                encode(context) + b"\n",
                deadline=deadline,
                name=spec.name,
                log=site.log,
                max_output=spec.max_line_bytes,
                tap=site.tap,
            )
        except HookCrashedError:
            self._kept = None  # what is wrong is said best by another look
            raise
        if seen is not None:
            assert site.verify is not None
            if await self._aside(partial(site.verify, spec), deadline) != seen:
                raise ChangedError(spec.name)
        if finished.exit_code:
            code, tail = finished.exit_code, finished.stderr_tail
            ended = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            said = f"; it said: {last_words(tail, SHOWN_TAIL)}" if tail else ""
            raise HookCrashedError(f"it {ended}{said}", hook=spec.name, exit_code=code, stderr_tail=tail)
        return read_result(finished.stdout)

    async def _look(self, deadline: float) -> tuple[Seen | None, Plan]:
        """Whether it may run, and what is to be run. Where nobody has to look at its files, where they are is kept."""
        verify, spec, path = self._site.verify, self.spec, os.environ.get("PATH")
        if verify is None and self._kept is not None and self._kept[0] == path:
            return None, replace(self._kept[1], env=environment(spec, os.environ))

        def look() -> tuple[Seen | None, Plan]:
            seen = None if verify is None else verify(spec)
            return seen, plan(spec, os.environ)

        seen, planned = await self._aside(look, deadline)
        self._kept = path, planned
        return seen, planned

    async def _aside(self, work: Callable[[], T], deadline: float) -> T:
        try:
            return await self._files.run(work, deadline)
        except TimeoutError:
            raise HookTimeoutError("its files could not be read in time", hook=self.name) from None
