"""A hook that is a shell command, run anew for each question."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import HookCrashedError
from ..process.oneshot import run_once
from ..process.plan import plan
from ..protocol.messages import encode
from ..text import last_words
from .jcli import read_result
from .oneshot import OneShotHook

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN_TAIL = 400
"""Characters of stderr that an error shows."""


class CommandHook(OneShotHook):
    """`sh -c` its command: the context on stdin, the result on stdout, and an exit code other than 0 is a failure.

    The whole tree of the command is ended with it, at its timeout at the latest.
    """

    async def answer(self, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        spec, site = self.spec, self._site
        if site.verify is not None:
            site.verify(spec)
        planned = plan(spec, os.environ)
        env = {**planned.env, "JCLI_HOOK_EVENT": context["event"], "JCLI_CWD": self.cwd}
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
        if finished.exit_code:
            code, tail = finished.exit_code, finished.stderr_tail
            ended = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            said = f"; it said: {last_words(tail, SHOWN_TAIL)}" if tail else ""
            raise HookCrashedError(f"it {ended}{said}", hook=spec.name, exit_code=code, stderr_tail=tail)
        return read_result(finished.stdout)
