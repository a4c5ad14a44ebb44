"""The tool calls of one response: decided one after another, run at the same time, concluded one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from .decisions import Outcome
from .errors import AbortTurnError, PausedError
from .models import ToolResult, ToolReturn
from .paused import Step
from .run import Decided, approve, call_digest, conclude, ended, execute_tool, not_run
from .wire import CONTINUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .decisions import Decision
    from .models import ToolCall
    from .turn import Turn

SKIPPED = "Tool execution skipped: {}"


class Batch:
    """Some calls on their way. Whatever ends it, each call has a result."""

    def __init__(
        self,
        turn: Turn,
        steps: Iterable[Step],
        execute: Callable[[ToolCall], Any],
        *,
        parallel: bool,
        trusted: bool = True,
    ) -> None:
        self._turn = turn
        self._host = turn.host
        self._steps = list(steps)
        self._execute = execute
        self._parallel = parallel
        self._trusted = trusted
        self._returned: dict[int, ToolReturn] = {}

    @classmethod
    def of(cls, turn: Turn, calls: Iterable[ToolCall], execute: Callable[[ToolCall], Any], *, parallel: bool) -> Batch:
        """A batch that nobody has decided about yet."""
        return cls(turn, [Step(call=call) for call in calls], execute, parallel=parallel)

    async def run(self, at: int = 0, hook: str = "", decision: Decision | None = None) -> list[ToolResult]:
        """From the first hook, or from the one that paused and is answered for now, to the results."""
        try:
            for place, step in enumerate(self._steps):
                said = (hook, decision) if decision is not None and place == at else None
                await self._decide(place, step, said)
            await self._run_tools()
            for place, step in enumerate(self._steps):
                if step.result is None:
                    step.result = await conclude(self._host, self._returned[place], self._turn.take)
        except AbortTurnError as error:
            self._settle(error)
            error.results = tuple(await self._close())
            raise
        return await self._close()

    async def _decide(self, place: int, step: Step, said: tuple[str, Decision] | None) -> None:
        if step.result is not None:
            return
        if self._turn.why_skip:
            step.result = not_run(self._host, step.call, SKIPPED, self._turn.why_skip)
            return
        known = {name for name, print_ in step.asked.items() if self._host.fingerprint(name) == print_}
        if step.asked and not said and not self._host.would_ask("before_tool", without=known):
            outcome: Outcome[ToolCall] = Outcome("before_tool", CONTINUE, step.call)
        else:
            outcome = await self._host.before_tool(step.call, said=said, without=known)
            self._turn.take(outcome)
        step.call = outcome.payload
        step.asked |= {entry.hook: self._host.fingerprint(entry.hook) for entry in outcome.trail if not entry.skipped}
        if self._trusted and step.digest and outcome.action == CONTINUE and step.digest == call_digest(step.call).hex():
            return
        try:
            decided = await approve(self._host, outcome, self._turn.take)
        except PausedError:
            raise PausedError(outcome, self._turn.keep("before_tool", outcome, self._steps, place)) from None
        step.call, step.result, step.digest = decided.call, decided.result, decided.digest.hex()

    async def _run_tools(self) -> None:
        async def one(place: int, step: Step) -> None:
            if self._turn.why_skip:
                step.result = not_run(self._host, step.call, SKIPPED, self._turn.why_skip)
                return
            returned = await execute_tool(
                self._host, Decided(step.call, digest=bytes.fromhex(step.digest)), self._execute
            )
            if isinstance(returned, ToolReturn):
                self._returned[place] = returned
            else:
                step.result = returned

        ready = [(place, step) for place, step in enumerate(self._steps) if step.result is None]
        if self._parallel and len(ready) > 1:
            async with anyio.create_task_group() as tasks:
                for place, step in ready:
                    tasks.start_soon(one, place, step)
        else:
            for place, step in ready:
                await one(place, step)

    def _settle(self, error: AbortTurnError) -> None:
        """A hook ended the turn: what ran keeps its result, and what did not run gets one that says why."""
        for place, step in enumerate(self._steps):
            if step.result is not None:
                continue
            returned = self._returned.get(place)
            if returned is None:
                step.result = not_run(self._host, step.call, SKIPPED, error.reason or "the turn was aborted")
            else:
                step.result = returned.result
                ended(self._host, returned, returned.result, returned.duration)

    async def _close(self) -> list[ToolResult]:
        results = []
        for place, step in enumerate(self._steps):
            assert step.result is not None
            result = await self._turn.deliver(self._returned.get(place, step.call), step.result)
            self._turn.record(step.call, result)
            results.append(result)
        return results
