"""A hook that is a Python callable in the host's own process."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import CodeType
from typing import TYPE_CHECKING, Any, get_args

import anyio
import anyio.to_thread

from ..errors import HookError, HookReplyError, HookTimeoutError, PicohookError
from ..model.decisions import APPROVE, CONTINUE, Approve, Continue, Decision, Deny, Modify, Respond, Retry
from ..model.encoded import Encoded
from ..model.replies import read_decision
from ..model.spec import HookSpec
from ..protocol.codec import decode_value, encode
from ..transport.event_loop import is_cancellation
from ..wire import words
from ..wire.text import explain
from .queued_events import QueuedEventsHook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..model.events import Event
    from ..model.stages import Stage
    from .base import HostServices, Question

_DECISIONS = get_args(Decision)
THREADS = 16
"""Threads for the plain functions of one hook. Each hook has its own, so that a hook that hangs does not block others."""


class FunctionHook(QueuedEventsHook):
    """A hook made of callables: one for each stage, and one for events.

    A callable gets the stage's payload. It returns a decision, None to continue, or a mapping as a hook process would answer;
    an approver may return True or False. It may be async. Any other callable runs in a thread, so it does not block the event
    loop.

    The payload is the hook's own copy. If the callable changes it in place and continues, that is a `Modify`. A change that the
    stage does not allow is a failure. Changes after the return or the deadline have no effect.
    """

    def __init__(
        self,
        name: str,
        stages: Mapping[str, Callable[[Any], Any]] | None = None,
        *,
        on_event: Callable[[Event], Any] | None = None,
        **settings: Any,
    ) -> None:
        self._handlers = dict(stages or {})
        self._on_event = on_event
        if on_event is not None:
            settings.setdefault("observe", ("*",))
        super().__init__(HookSpec.model_validate({"name": name, "stages": tuple(self._handlers), **settings}))

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._threads = anyio.CapacityLimiter(THREADS)
        self._scope = type(anyio.CancelScope())  # of this event loop: `anyio.CancelScope` asks at each call which it is
        self._cancelled = anyio.get_cancelled_exc_class()

    async def handle(self, question: Question[Any]) -> Decision:
        stage, task = question.stage, question.task
        given = (None if self.spec.retry else question.shared.lend()) or question.encoded
        function = self._handlers[stage.name]
        if task is None or self.spec.retry:
            with self._scope(deadline=question.deadline) as scope:
                answer = await self._call(function, given.payload)
            is_late = scope.cancelled_caught
        else:
            is_late = False
            task.ends_at(question.deadline)
            try:
                answer = await self._call(function, given.payload)
            except self._cancelled:
                if not task.is_late:
                    raise
                is_late = True
        if is_late or (stage.approves and self._host.reactor.now() > question.deadline):
            raise HookTimeoutError("no answer in time", hook=self.name)
        decision = _read(stage, answer)
        return decision if given.intact else _changed_in_place(stage, given, decision)

    async def take(self, event: Event) -> None:
        if self._on_event is not None:
            self._warn_of_decision(event, await self._call(self._on_event, event))

    def _warn_of_decision(self, event: Event, answer: Any) -> None:
        """Log a decision about an event, because it has no effect."""
        action = answer.get("action") if isinstance(answer, dict) else None
        if isinstance(answer, _DECISIONS):
            action = answer.action
        if action not in (None, "", words.CONTINUE):
            why = f"it returned {action!r}, and events take no answer"
            self._host.log.warning("its decision has no effect", kind=event.kind, why=why)

    async def _call_in_time(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function for an event, as `_call` does. Raises `HookTimeoutError` after the hook's own timeout."""
        with anyio.CancelScope(deadline=self._host.reactor.now() + self.own_timeout) as scope:
            return await self._call(function, *arguments)
        assert scope.cancelled_caught
        why = f"it was cut off after {self.own_timeout:g} s, its timeout"
        raise HookTimeoutError(why, hook=self.name)

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await call(function, *arguments, threads=self._threads)
        except PicohookError:
            raise
        except Exception as error:
            raise HookError(explain(error), hook=self.name) from error


def _read(stage: Stage[Any], answer: Any) -> Decision:
    if isinstance(answer, _DECISIONS):
        decision: Decision = answer
        return decision
    if answer is None and not stage.approves:
        return CONTINUE
    if stage.approves and isinstance(answer, bool):
        return APPROVE if answer else Deny()
    return read_decision(stage, answer)


def _changed_in_place(stage: Stage[Any], given: Encoded[Any], decision: Decision) -> Decision:
    """The decision with the changes that the function made in place, which are undone.

    Raises `HookReplyError` for a change that the stage does not allow.
    """
    if isinstance(decision, Approve):
        raise HookReplyError(
            "it changed the call in place: an approver says yes or no, a hook at before_tool can change it"
        )
    if not isinstance(decision, Continue | Modify | Respond | Retry):
        return decision  # it ends the chain, so the changes do not matter
    before, after = decode_value(given.params()), decode_value(Encoded(given.payload).params())
    given.restore()
    changed = _difference(before, after)
    unchangeable = changed.keys() - stage.editable
    if unchangeable:
        names = ", ".join(sorted(unchangeable))
        raise HookReplyError(f"it changed {names} in place, which no hook can change at {stage.name}: change a copy")
    changes: Mapping[str, Any] = {} if isinstance(decision, Continue) else decision.changes
    patch: Mapping[str, Any] = (decision.patch if isinstance(decision, Modify) else None) or {}
    if (part := stage.part) is not None:
        changed = _difference(before[part], after[part])
        gone = {name: None for name, value in changed.items() if value is None}
        changed = {part: {**changed, **changes.get(part, changes)}}
        patch = {part: {**gone, **patch.get(part, patch)}}
    else:
        changed |= changes
    if isinstance(decision, Respond | Retry):
        return replace(decision, changes=changed)
    return Modify(changed, patch=patch, reason=decision.reason, notes=decision.notes)


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ, with their new values: None for a field that was removed."""
    names = {**before, **after}
    return {name: after.get(name) for name in names if encode(before.get(name)) != encode(after.get(name))}


async def call(function: Callable[..., Any], *arguments: Any, threads: anyio.CapacityLimiter | None = None) -> Any:
    """The result of a function. It is called in a thread, unless it is async.

    Raises `HookError` if it calls `exit`, raises what is no `Exception`, or raises a cancellation though nobody cancelled it.
    """
    try:
        if _is_async(function):
            return await function(*arguments)
        returned = await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=threads)
        return await returned if inspect.isawaitable(returned) else returned
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except SystemExit as error:
        raise HookError(f"it called exit({error.code!r})") from None
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise HookError(explain(error)) from error


def _is_async(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    if type(code) is CodeType and code.co_flags & inspect.CO_COROUTINE:
        return True  # as `inspect` finds, sooner
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
