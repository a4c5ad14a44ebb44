"""Runs a group of handlers from another system's file, which answer as one hook.

The dialect chooses the handlers, makes their input, and joins their answers.
"""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from ...errors import HookError, HookReplyError, HookTimeoutError
from ...hooks.queued_events import QueuedEventsHook
from ...model.decisions import APPROVE, CONTINUE, Continue, Deny, Modify
from ...model.payloads import Finish, Prompt, ToolCall
from ...process.environment import environment
from ...process.runner import Runner
from ...process.threads import FileThreads
from ...protocol.codec import TOO_MANY_VALUES, encode, has_too_many_values
from ...wire.text import explain
from ..prompt.model import ModelOfHook, problem_with_model
from ..prompt.model_prompt import ModelPrompt
from .contract import HandlerAnswer, HandlerResult
from .http import filled, post
from .output import UnreadableError
from .surroundings import Recent, SessionEnv, file_text
from .vendor import let_pass, notes_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from ...errors import Problem
    from ...hooks.base import HostServices, Question
    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.payloads import Payload
    from ...model.trail import Notes
    from .contract import GroupAnswer, HandlerInput
    from .spec import GroupSpec, HandlerSpec

MOST_LATE = 64
"""The number of texts of handlers in the background that are kept for the next prompt."""
DAY = 86_400.0
"""Seconds for a handler in the background."""
_STANDS_FOR = "$ARGUMENTS stands for the data."
_FORM = 'The others are "ok", true or false, and where that is false "reason", why not.'
_FIELDS = {"ok": "boolean", "reason": "string", "impossible": "boolean"}


class _Blocks(NamedTuple):
    """The number of times that handlers have kept a turn from ending."""

    in_a_row: int
    """The blocks since a tool ran."""
    total: int
    messages: int
    """The number of messages that the turn had the last time."""


_NOT_BLOCKED = _Blocks(0, 0, 0)


class HandlersHook(QueuedEventsHook):
    """Runs the handlers that match a payload, and joins their answers."""

    in_process = False
    keeps_decisions = False
    abstains = True
    spec: GroupSpec

    @property
    def approves_silently(self) -> bool:  # type: ignore[override]
        return self.spec.failures == "vendor"

    def problem(self, host: HostServices) -> Problem | None:
        return problem_with_model(self.spec, host) if self.spec.wants else None

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._session_env = host.shared(SessionEnv)
        self._model = ModelOfHook(self.spec, host)
        self._files = FileThreads()
        self._group = self.spec.filter
        self._dialect = self._group.contract
        self._runners = {
            index: Runner(member, host, self.spec)
            for index, member in enumerate(self.spec.members)
            if self._group.handlers[index].rule.kind == "command"
        }
        self._begun: Recent[str, bool] = Recent()
        self._blocks: Recent[str, _Blocks] = Recent()
        """The turns that handlers kept from ending."""
        self._late: deque[tuple[str, HandlerAnswer]] = deque(maxlen=MOST_LATE)
        """Answers whose texts come with the next prompt, each with its session."""
        self._background: anyio.abc.TaskGroup | None = None
        self._not_begun: list[tuple[int, HandlerInput, str]] = []
        """The handlers that matched before the task began that runs them in the background."""

    async def run(self) -> None:
        async with anyio.create_task_group() as self._background:
            for job in self._not_begun:
                self._background.start_soon(self._in_background, *job)
            await super().run()
            self._background.cancel_scope.cancel()

    async def handle(self, question: Question[Any]) -> Decision:
        payload, stage = question.payload, question.stage
        late = self._late_notes(payload) if isinstance(payload, Prompt) and self._group.has_background else None
        handler_input, indexes = None, list[int]()
        if self._happens(payload):
            blocks = self._blocks.get(self._key(payload), _NOT_BLOCKED).total
            handler_input, indexes = self._group.chosen(payload, blocks=blocks)
        if handler_input is None or not indexes:
            return let_pass(late)
        answers, handler_input = await self._ask(
            indexes, handler_input, question.begun, question.deadline, payload.meta.session_key
        )
        if late is not None:
            answers.append(HandlerAnswer(context=late.additional_context, message=late.system_message))
        joined = self._dialect.merge(self._group.event, answers, handler_input, payload, self.spec.failures)
        if self.spec.guard and isinstance(joined.decision, Modify):
            pairs = zip(self._that_decide(indexes), answers, strict=False)  # late texts may come after the answers
            changing = {index for index, answer in pairs if answer.input is not None}
            joined = await self._after_change(joined, changing, question)
        if joined.env:
            self._session_env.add(self.spec.file, payload.meta.session_key, joined.env)
        for failure in joined.failures:
            denied = any(answer.failure is failure and answer.verdict == "deny" for answer in answers)
            counted_as = "deny" if denied else "the others decided"
            self.failures.add(stage.name, "handler", str(failure), counted_as, self._host.reactor.now())
        if isinstance(payload, Finish):
            return self._ended(payload, joined.decision, blocks=joined.blocks)
        if joined.asks and not self._host.has_approver(_after(payload, joined.decision), None):
            reason = "; ".join(answer.reason for answer in answers if answer.verdict == "ask" and answer.reason)
            return Deny("it has to be approved, and there is no approver" + (f": {reason}" if reason else ""))
        if joined.silent and not self.approves_silently:
            return (
                APPROVE
                if self._host.has_approver(payload, self)
                else Deny("no handler has decided, and there is no approver")
            )
        return joined.decision

    async def _after_change(
        self, joined: GroupAnswer, changing: Collection[int], question: Question[Any]
    ) -> GroupAnswer:
        """Ask all handlers but those in `changing` about the changed call.

        Returns the given answer if they agree, and otherwise theirs. Raises the `HookError` that decides.
        """
        changed = _after(question.payload, joined.decision)
        handler_input, wanted = self._group.chosen(changed)
        indexes = [index for index in self._that_decide(wanted) if index not in changing]
        if handler_input is None or not indexes:
            return joined
        answers, handler_input = await self._ask(
            indexes, handler_input, question.begun, question.deadline, changed.meta.session_key
        )
        again = self._dialect.merge(self._group.event, answers, handler_input, changed, self.spec.failures)
        if isinstance(again.decision, Modify):
            raise HookReplyError("a handler changes the call only when another handler of its file has changed it")
        if isinstance(again.decision, Continue):
            return joined._replace(asks=joined.asks or again.asks)
        return again

    def _that_decide(self, indexes: Sequence[int]) -> list[int]:
        return [index for index in indexes if not self._group.handlers[index].rule.in_background]

    async def take(self, event: Event) -> None:
        handler_input, indexes = self._group.chosen(event)
        if handler_input is not None and indexes:
            begun = self._host.reactor.now()
            answers, _ = await self._ask(
                indexes, handler_input, begun, begun + self.own_timeout, event.meta.session_key
            )
            failed = next((answer.failure for answer in answers if answer.failure is not None), None)
            if failed is not None:
                raise failed

    def trial(self, time_limit: float) -> AsyncIterator[Any] | None:
        from . import gates

        return (
            gates.try_handlers(self.spec, partial(self.result, within=time_limit)) if gates.is_gate(self.spec) else None
        )

    async def result(self, index: int, payload: Payload, *, within: float) -> tuple[HandlerInput, HandlerResult] | None:
        """Run one handler for a trial. Returns its input and its result; None if it does not match the payload."""
        handler_input, indexes = self._group.chosen(payload)
        if handler_input is None or index not in indexes:
            return None
        deadline = self._host.reactor.now() + min(within, self._group.handlers[index].rule.timeout)
        handler_input = await self._with_surroundings(handler_input, payload.meta.session_key, deadline)
        return handler_input, await self._run(index, handler_input, deadline)

    # When handlers run.

    def _happens(self, payload: Payload) -> bool:
        """Whether the event happens with this payload. Some events happen once a session."""
        if not self._dialect.events[self._group.event].once:
            return True
        key = payload.meta.session_key
        begins = key not in self._begun
        self._begun[key] = True
        return begins

    @staticmethod
    def _key(payload: Payload) -> str:
        return payload.meta.turn_id or payload.meta.session_key

    def _ended(self, payload: Finish, decision: Decision, *, blocks: bool) -> Decision:
        """The decision about a turn's end. After too many blocks in a row, the turn may end."""
        key = self._key(payload)
        in_a_row, total, seen = self._blocks.pop(key, _NOT_BLOCKED)
        if not blocks:
            return decision
        if any(message.get("role") == "tool" for message in payload.messages[seen:]):
            in_a_row = 0
        if self._dialect.most_blocks is not None and in_a_row >= self._dialect.most_blocks:
            self._host.log.warning("the turn ends, although its hooks want it to continue", blocks=in_a_row)
            return CONTINUE
        self._blocks[key] = _Blocks(in_a_row + 1, total + 1, len(payload.messages))
        return decision

    def _late_notes(self, payload: Payload) -> Notes | None:
        mine = [answer for session, answer in self._late if session == payload.meta.session_key]
        self._late = deque((one for one in self._late if one[0] != payload.meta.session_key), MOST_LATE)
        return notes_of(mine)

    # How handlers run.

    async def _ask(
        self, indexes: Sequence[int], handler_input: HandlerInput, begun: float, deadline: float, session: str
    ) -> tuple[list[HandlerAnswer], HandlerInput]:
        """The answers in the order of the file, and the last handler's input. Handlers in the background have no answer."""
        handler_input = await self._with_surroundings(handler_input, session, deadline)
        rules = {index: self._group.handlers[index].rule for index in indexes}
        waited_for = self._that_decide(indexes)
        for index in indexes:
            if index in waited_for:
                continue
            if self._background is None:
                self._not_begun.append((index, handler_input, session))
            else:
                self._background.start_soon(self._in_background, index, handler_input, session)
        if any(rule.in_order for rule in rules.values()):
            made = []
            for index in waited_for:
                until = min(deadline, self._host.reactor.now() + rules[index].timeout)
                made.append(self._decoded(index, await self._run(index, handler_input, until)))
                handler_input = self._dialect.chain(self._group.event, handler_input, made[-1])
            return made, handler_input
        answers: dict[int, HandlerAnswer] = {}

        async def one(index: int) -> None:
            result = await self._run(index, handler_input, min(deadline, begun + rules[index].timeout))
            answers[index] = self._decoded(index, result)

        if len(waited_for) == 1:
            await one(waited_for[0])
        elif waited_for:
            async with anyio.create_task_group() as tasks:
                for index in waited_for:
                    tasks.start_soon(one, index)
        return [answers[index] for index in waited_for], handler_input

    async def _with_surroundings(self, handler_input: HandlerInput, session: str, deadline: float) -> HandlerInput:
        """The input with the texts of the files that it names, and with the variables that handlers have set for the session.

        Raises `HookTimeoutError` if a file cannot be read in time.
        """
        limit = self.spec.max_line_bytes
        try:
            texts = {
                name: await self._files.run(partial(file_text, path, limit), deadline)
                for name, path in handler_input.files.items()
            }
        except TimeoutError:
            raise HookTimeoutError("the file that it is asked about could not be read in time") from None
        more = self._session_env.of(self.spec.file, session)
        return (
            handler_input._replace(stdin={**handler_input.stdin, **texts}, env={**more, **handler_input.env})
            if texts or more
            else handler_input
        )

    async def _in_background(self, index: int, handler_input: HandlerInput, session: str) -> None:
        result = await self._run(index, handler_input, self._host.reactor.now() + DAY)
        answer = self._decoded(index, result)
        if answer.failure is not None:
            at = self._group.handlers[index].rule.at
            self._host.log.warning("a handler in the background failed", handler=at, why=str(answer.failure))
        context = "\n\n".join(filter(None, (answer.context, answer.reason if answer.verdict == "deny" else "")))
        if context or answer.message:
            self._late.append((session, HandlerAnswer(context=context, message=answer.message)))

    def _decoded(self, index: int, result: HandlerResult) -> HandlerAnswer:
        rule = self._group.handlers[index].rule
        answer = self._dialect.decode(self._group.event, rule, result, self.spec.failures)
        if answer.ignored:
            self._host.log.warning(
                "ignored a part of its answer", handler=rule.at, at=self._group.event, fields=", ".join(answer.ignored)
            )
        if answer.failure is None:
            return answer
        # The error says which handler it was.
        failure = answer.failure
        failure.args = (f"{rule.at}: {failure}",)
        return answer

    async def _run(self, index: int, handler_input: HandlerInput, deadline: float) -> HandlerResult:
        """Run a handler. Returns its result, which may be a failure. Never raises."""
        handler = self._group.handlers[index]
        try:
            stdin = encode(handler_input.stdin)
            match handler.rule.kind:
                case "command":
                    done = await self._runners[index].run(stdin, deadline, handler_input.env, self._dialect.hides)
                    result = HandlerResult(done.exit_code, done.stdout.decode("utf-8", "replace"), done.stderr_tail)
                case "http":
                    result = HandlerResult(stdout=await self._post(handler, stdin, deadline))
                case "prompt":
                    result = HandlerResult(stdout=await self._complete(handler, stdin, deadline))
                case _:
                    raise HookError(f"it cannot be run: {handler.rule.why}")  # all failures are taken alike
            if self._host.reactor.now() > deadline:
                raise HookTimeoutError
            if has_too_many_values(result.stdout.encode("utf-8", "replace")):
                raise UnreadableError(f"its output cannot be read: {TOO_MANY_VALUES}")
            return result
        except HookError as error:
            return HandlerResult(failure=error)
        except Exception as error:  # a handler can fail in any way
            return HandlerResult(failure=HookError(explain(error)))

    async def _post(self, handler: HandlerSpec, stdin: bytes, deadline: float) -> str:
        headers = filled(handler.headers, handler.header_env, environment(handler, os.environ))
        left = deadline - self._host.reactor.now()
        return await post(handler.url, headers, stdin, within=left, limit=self.spec.max_line_bytes)

    async def _complete(self, handler: HandlerSpec, stdin: bytes, deadline: float) -> str:
        template, event = handler.prompt or "", self._group.event
        prompt = ModelPrompt.make(
            template, stdin.decode(), event=event, stands_for=_STANDS_FOR, form=_FORM, fields=_FIELDS
        )
        return encode(await self._model.ask(self.spec, prompt, handler.model, deadline)).decode()


def _after(payload: ToolCall, decision: Decision) -> ToolCall:
    """The call as the decision leaves it."""
    changes = getattr(decision, "changes", {})
    return payload.model_copy(update=dict(changes)) if changes else payload
