"""A hook that is a Python callable in the host's own process."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType, GeneratorType
from typing import Any, get_args

import anyio

from ..errors import HookError, HookReplyError, PicohookError
from ..model.decisions import APPROVE, CONTINUE, Approve, Continue, Decision, Deny, Modify, Respond, Retry
from ..model.encoded import Encoded
from ..model.events import Event
from ..model.replies import read_decision
from ..model.spec import HookSpec
from ..model.stages import Stage
from ..observe.rate_limit import RateLimit
from ..process.threads import Threads
from ..protocol.codec import decode_own, encode
from ..transport.event_loop import is_cancellation
from ..transport.reactor import timed
from ..wire import words
from ..wire.text import explain
from .base import HostServices, Question, TimeLimit
from .queued_events import QueuedEventsHook

_DECISIONS = get_args(Decision)
_ASYNC = inspect.CO_COROUTINE
THREADS = 16
"""Threads for the plain functions of one hook. Each hook has its own, so that a hook that hangs does not block others."""
NESTED = 4
"""The number of results in a row that are awaited: a function may return one of its own calls."""
SILENT = 10.0
"""Seconds in which it is logged once that a hook held the event loop."""


class FunctionHook(QueuedEventsHook):
    """A hook made of callables: one for each stage, and one for events.

    A callable gets the stage's payload. It returns a decision, None to continue, or a mapping as a hook process would answer;
    an approver may return True or False. It may be async, or return an awaitable. A callable that is not async runs in a
    thread, so it does not block the event loop. An async one that blocks the event loop is logged.

    The payload is the hook's own copy. If the callable changes it in place and continues, that is a `Modify`. A change that the
    stage does not allow is a failure. Changes after the return have no effect, and neither has an answer after the deadline.
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
        self._call = Functions(self.name, host).call
        self._scope = type(anyio.CancelScope())  # of this event loop: `anyio.CancelScope` asks at each call which it is

    async def handle(self, question: Question[Any]) -> Decision:
        stage = question.stage
        again = self.spec.retry or self.spec.fallback  # then a failure has to leave the payload as it was
        given = (None if again else question.shared.lend()) or question.encoded
        function = self._handlers[stage.name]
        with question.time_limit("", self._scope):
            answer = await self._call(function, given.payload)
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
        why = f"it was cut off after {self.own_timeout:g} s, its timeout"
        with TimeLimit(self._host.reactor.now() + self.own_timeout, why):
            return await self._call(function, *arguments)


def _read(stage: Stage[Any], answer: Any) -> Decision:
    if answer is None and not stage.approves:
        return CONTINUE  # as nearly always
    if isinstance(answer, _DECISIONS):
        decision: Decision = answer
        return decision
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
    before, after = decode_own(given.params()), decode_own(Encoded(given.payload).params())
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


class Functions:
    """Calls the functions of one hook: async ones on the event loop, and all others in the hook's own threads."""

    def __init__(self, hook: str, host: HostServices, failed: str = "") -> None:
        """`failed` is the beginning of the error of a function that raises."""
        self._hook = hook
        self._failed = failed
        self._threads = Threads(THREADS)
        self._now = host.reactor.now
        self._log = host.log
        self._said = RateLimit(1, SILENT)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function, awaited if it is an awaitable. A function that held the event loop is logged.

        Raises `HookError` for every exception of the function, for a cancellation only if this task was not cancelled. A
        `PicohookError` is raised as it is.
        """
        try:
            code = getattr(function, "__code__", None)  # as `inspect` finds, sooner
            if type(code) is CodeType and code.co_flags & _ASYNC:
                result = await timed(function(*arguments), self._now, self._held)
            elif any(map(inspect.iscoroutinefunction, (function, type(function).__call__))):
                result = await timed(_awaited(function(*arguments)), self._now, self._held)
            else:
                (result,) = await self._threads.run(function, *arguments)
            for _ in range(NESTED):
                if result is None or not (hasattr(kind := type(result), "__await__") or kind is GeneratorType):
                    return result
                result = await timed(_awaited(result), self._now, self._held)
            if inspect.iscoroutine(result):
                result.close()
            raise HookReplyError(  # all errors are its own
                "what it returned is awaited, and so is the result of that, without end", hook=self._hook
            )
        except (PicohookError, KeyboardInterrupt, GeneratorExit):
            raise
        except SystemExit as error:
            raise HookError(f"it called exit({error.code!r})", hook=self._hook) from None
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise HookError(self._failed + explain(error), hook=self._hook) from error

    def _held(self, seconds: float) -> None:
        if self._said.take(self._now()):
            why = f"a function of it did not wait for {seconds:.1f} s: call what blocks in a thread"
            self._log.warning("held the event loop", why=why)


async def _awaited(work: Any) -> Any:
    return await work
