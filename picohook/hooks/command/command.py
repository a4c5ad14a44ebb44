"""A hook that is a shell command, run anew for each question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import HookCrashedError
from ...process.advice import advice
from ...protocol.codec import encode
from ...wire.text import last_words
from ..result import read_result
from . import native_contract
from .hook import OneShotHook
from .runner import Runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..base import HostServices

SHOWN_TAIL = 400
"""The number of characters of stderr that an error shows."""


class CommandHook(OneShotHook):
    """Runs its command with `sh -c`: the context is on stdin, the result on stdout. An exit code other than 0 is a failure.

    All processes that it started end with the command, at its timeout at the latest.
    """

    contract = native_contract

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._runner = Runner(self.spec, host)

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        more = self.contract.environment(event, self.cwd)
        finished = await self._runner.run(encode(context) + b"\n", deadline, more)
        if finished.exit_code:
            code, tail = finished.exit_code, finished.stderr_tail
            ended = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            said = last_words(tail, SHOWN_TAIL)
            stderr = f"; it said: {said}{advice(self.spec, '', said)}" if said else ""
            raise HookCrashedError(f"it {ended}{stderr}", hook=self.spec.name, exit_code=code, stderr_tail=tail)
        return read_result(finished.stdout)
