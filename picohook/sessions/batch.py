"""A batch: the tool calls of one response. Hooks are asked about one call after another. The tools run in parallel."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio

from ..calls.abort import AbortTurnError, HardAbortError, PausedError, raise_if_ended
from ..calls.tool_call import DecidedCall, call_digest, ended, not_run, value_of
from ..engine.resumed import Resumed, decided_by
from ..model.decisions import Outcome
from ..model.payloads import ToolCall, ToolResult, ToolReturn
from ..wire.words import CONTINUE, MODIFY, PAUSE
from .base_turn import BaseTurn
from .paused import Step, fingerprints, unchanged

SKIPPED = "Tool execution skipped: {}"
INTERRUPTED = "Tool execution was interrupted"
WITHHELD = "The tool ran, and its result is withheld: {}"


class Batch:
    """The calls of a batch. At its end each has a result, also after an abort. Only a pause leaves some without one."""

    def __init__(
        self,
        turn: BaseTurn,
        steps: Sequence[Step],
        execute: Callable[[ToolCall], Any],
        *,
        parallel: bool,
        trusted: bool = False,
    ) -> None:
        self._turn = turn
        self._host = turn.host
        self._steps = list(steps)
        self._execute = execute
        self._parallel = parallel
        self._trusted = trusted
        self._calls = [DecidedCall(turn.host, step.call, turn.take) for step in self._steps]
        self._returned: dict[int, ToolReturn] = {}
        """The results of tools that have begun, by the index of their calls."""

    async def run(self, at: int = 0, resumed: Resumed | None = None) -> list[ToolResult]:
        """Run all steps. Returns the results. After a pause at call `at`, `resumed` has the decision in place of a hook."""
        try:
            for index, step in enumerate(self._steps):
                if step.result is None:
                    await self._decide(index, step, resumed if index == at else None)
            await self._run_tools()
            await self._conclude()
        except PausedError:
            raise
        except AbortTurnError as error:
            self._settle(error.outcome.reason_for_llm or "the turn was aborted", error.reason)
            error.results = tuple(await self._close())
            raise
        except BaseException:
            self._settle("the turn ended")
            self._record()
            raise
        finally:
            for call in self._calls:
                call.operation.ended()
        return await self._close()

    # Before.

    async def _decide(self, index: int, step: Step, resumed: Resumed | None) -> None:
        if self._skipped(step):
            return
        decided = self._calls[index]
        with decided.begin().work():
            await self._decide_call(index, step, resumed)
        if step.result is not None:
            decided.operation.ended(decided.action)

    async def _decide_call(self, index: int, step: Step, resumed: Resumed | None) -> None:
        outcome = await self._ask(index, step, resumed)
        if outcome.action == PAUSE:
            raise PausedError(outcome, self._turn.keep("before_tool", outcome, batch=self._steps, at=index))
        approvers = fingerprints(self._host, (hook.name for hook in self._host.asked_at("approve_tool")))
        if (
            self._trusted
            and outcome.action == CONTINUE
            and step.digest == call_digest(step.call).hex()
            and approvers.items() <= step.approvers.items()
        ):
            return

        async def deliver(call: ToolCall, result: ToolResult, duration: int) -> ToolResult:
            return await self._end(step, call, result, duration)

        decided = self._calls[index]
        await decided.approve(outcome, deliver)
        step.result, step.digest, step.approvers = decided.result, decided.digest.hex(), approvers
        step.seen = step.digest

    async def _ask(self, index: int, step: Step, resumed: Resumed | None) -> Outcome[ToolCall]:
        """Ask the hooks at before_tool that have not decided yet, and guards that may have decided about a changed call."""
        hooks = self._host.hooks
        known = unchanged(self._host, step.asked)
        guards = {hook.name for hook in hooks if hook.spec.guard}
        if known & guards and not (self._trusted and step.seen == call_digest(step.call).hex()):
            known -= guards
        if resumed is not None or known:
            resumed = replace(resumed or Resumed(), skip=known)
        outcome = await self._host.before_tool(step.call, resumed=resumed)
        self._calls[index].take(outcome)
        step.asked = fingerprints(self._host, decided_by(outcome, step.call, hooks, known))
        if outcome.action == PAUSE:
            step.seen = call_digest(outcome.payload).hex()
        step.call = outcome.payload
        return outcome

    # The tools.

    async def _run_tools(self) -> None:
        ready = [(index, step) for index, step in enumerate(self._steps) if step.result is None]
        for wave in [ready] if self._parallel else [[one] for one in ready]:
            failures: list[BaseException] = []
            async with anyio.create_task_group() as tasks:
                for index, step in wave:
                    tasks.start_soon(self._run_tool, index, step, tasks.cancel_scope, failures)
            if failures:
                raise failures[0]

    async def _run_tool(self, index: int, step: Step, others: anyio.CancelScope, failures: list[BaseException]) -> None:
        if self._skipped(step):
            return
        decided = self._calls[index]
        decided.approved(step.call, bytes.fromhex(step.digest))
        try:
            decided.start()
            step.result = decided.result
            if step.result is not None:
                return
            with decided.operation.current():
                self._returned[index] = decided.returned(await value_of(self._execute, decided.call))
        except BaseException as error:
            interrupted = ToolResult(for_llm=INTERRUPTED, is_error=True)
            self._returned[index] = ToolReturn(**step.call.__dict__, result=interrupted, error=INTERRUPTED)
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                failures.append(error)  # raised alone below, and not in a group
                others.cancel()
            elif anyio.current_effective_deadline() == -math.inf:
                raise
            # Something that the tool waited for was cancelled, and the batch was not. So the tool failed.

    # After.

    async def _conclude(self) -> None:
        """Ask the hooks about every result. Raises an abort only at the end, since all results are kept."""
        aborted: AbortTurnError | None = None
        for index, step in enumerate(self._steps):
            if step.result is not None:
                continue
            returned = self._returned[index]
            operation = self._calls[index].operation
            with operation.work():
                after = await self._host.after_tool(returned)
            self._calls[index].take(after)
            going_on = after.action in {CONTINUE, MODIFY}
            await self._end(step, returned, after.payload.result if going_on else _kept(after), returned.duration)
            try:
                raise_if_ended(after)
                operation.ended(payload=after.payload)
            except AbortTurnError as error:
                operation.failed(error)
                if aborted is None or isinstance(error, HardAbortError):
                    aborted = error
        if aborted is not None:
            raise aborted

    async def _end(self, step: Step, call: ToolCall, result: ToolResult, duration: int) -> ToolResult:
        """End a call that is done: deliver its result, and emit the event. Returns the result."""
        step.result, step.delivered = result, True
        try:
            step.result = result = await self._turn.deliver(call, result)
        finally:
            ended(self._host, call, result, duration)
            self._turn.note_run(call, result)
        return result

    def _skipped(self, step: Step) -> bool:
        """Whether the call is skipped. If so, sets its result."""
        if self._turn.why_skip:
            why = self._turn.why_skip
            step.result = not_run(self._host, step.call, SKIPPED.format(why), why)
        return step.result is not None

    def _settle(self, why: str, reason: str = "") -> None:
        """End all calls: those that ran keep their results, and the others get one that says why. `reason` is for observers."""
        for index, step in enumerate(self._steps):
            if step.result is not None:
                continue
            returned = self._returned.get(index)
            if returned is None:
                step.result = not_run(self._host, step.call, SKIPPED.format(why), reason or why)
            else:
                step.result = returned.result
                ended(self._host, returned, returned.result, returned.duration)
                self._turn.note_run(returned, returned.result)

    async def _close(self) -> list[ToolResult]:
        try:
            for step in self._steps:
                if not step.delivered:
                    step.result, step.delivered = await self._turn.deliver(step.call, _settled(step)), True
        finally:
            self._record()
        return [call.traced(_settled(step)) for step, call in zip(self._steps, self._calls, strict=True)]

    def _record(self) -> None:
        for step in self._steps:
            self._turn.record(step.call, _settled(step))


def _kept(outcome: Outcome[ToolReturn]) -> ToolResult:
    """The result at which a hook ended the turn. It is withheld if the hook failed: the hook might have removed something."""
    if outcome.trail[-1].error is None:
        return outcome.payload.result
    return ToolResult(for_llm=WITHHELD.format(outcome.reason_for_llm), is_error=True)


def _settled(step: Step) -> ToolResult:
    assert step.result is not None
    return step.result
