"""Hooks that are started anew for each question and each event: shell commands, by picohook's contract."""

import os
from collections.abc import Mapping
from typing import Any

from ..errors import HookCrashedError
from ..model.decisions import Decision
from ..model.events import Event
from ..model.payloads import Payload
from ..model.replies import read_decision
from ..model.stages import STAGES, Stage
from ..process.advice import advice
from ..process.runner import Runner
from ..protocol.codec import decode_value, encode
from ..transport.concurrency import ConcurrencyLimit
from ..wire import words
from ..wire.answer_fields import meaningful
from ..wire.platforms import how_it_ended
from ..wire.text import cut, last_words, show
from .base import HostServices, Question
from .queued_events import QueuedEventsHook

SHOWN_TAIL = 400
"""The number of characters of stderr that an error shows."""
UNLIMITED = 1 << 30
WARNED = 100
"""The number of warnings about ignored fields that are remembered, so that they are logged once."""


class Contract:
    """picohook's own contract with `run` hooks: a command gets the same params as a hook process, and answers in the same form.

    The command reads the params of the question or event on stdin, as one line of JSON. The environment names the stage or the
    event. The command writes its result to stdout; an empty output is an empty result. An exit code other than 0 is a failure,
    whatever the output.
    """

    @staticmethod
    def environment(event: str, cwd: str) -> dict[str, str]:
        """The environment variables of a command."""
        return {"PICOHOOK_EVENT": event, "PICOHOOK_CWD": cwd}

    @staticmethod
    def question(stage: Stage[Any], payload: Payload, _cwd: str) -> tuple[str, dict[str, Any]]:
        """The stage's name, and the params of the question."""
        return stage.name, payload.wire()

    @staticmethod
    def event(event: Event, dialect: str, _cwd: str) -> tuple[str, dict[str, Any]]:
        """The event's kind, and its params, in the hook's dialect."""
        return words.EVENT_KINDS[event.kind] if dialect == "runtime" else event.kind, event.params(dialect)

    @staticmethod
    def decide(stage: Stage[Any], _payload: Payload, result: Mapping[str, Any]) -> Decision:
        """The decision in a result. Raises `ReplyError` for a result that the stage does not allow."""
        return read_decision(stage, dict(result))

    @staticmethod
    def ignored(event: str, result: Mapping[str, Any]) -> tuple[list[str], set[str]]:
        """The fields of a result that have no meaning, and those that it may have.

        An event has no answer. At a stage, `decide` refuses a field without a meaning.
        """
        return ([] if event in STAGES else meaningful(result)), set()


class OneShotHook(QueuedEventsHook):
    """A hook that is run anew for each question. A subclass implements `answer`."""

    in_process = False
    keeps_decisions = False
    contract: Any = Contract
    """The form of the context, and the meaning of the result: a class or a module with the functions of `Contract`."""

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._warned: set[tuple[str, str]] = set()
        self._slots = ConcurrencyLimit(host.reactor, self.spec.max_in_flight or UNLIMITED)

    @property
    def parts(self) -> None:
        """None: it would be started anew for each part."""
        return

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The hook's result for a context. Raises an exception if the hook fails."""
        raise NotImplementedError

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        return self.own_timeout, "timeout"

    @property
    def cwd(self) -> str:
        """The hook's working directory."""
        return os.path.abspath(self.spec.dir or "")

    async def handle(self, question: Question[Any]) -> Decision:
        stage, payload = question.stage, question.payload
        name, context = self.contract.question(stage, payload, self.cwd)
        result = await self._ask(name, context, question.deadline)
        decision: Decision = self.contract.decide(stage, payload, result)
        return decision

    async def take(self, event: Event) -> None:
        name, context = self.contract.event(event, self.spec.events, self.cwd)
        await self._ask(name, context, self._host.reactor.now() + self.own_timeout)

    async def _ask(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The result. Waits for one of the `max_in_flight` slots, and logs fields of the result that have no meaning."""
        await self._slots.acquire(deadline, self.name)
        try:
            result = await self.answer(event, context, deadline)
        finally:
            self._slots.release()
        self._warn_of_ignored(event, result)
        return result

    def _warn_of_ignored(self, event: str, result: Mapping[str, Any]) -> None:
        ignored, known = self.contract.ignored(event, result)
        if ignored:
            fields = ", ".join(ignored)
            about = event, cut(fields, words.MAX_REASON)
            again = about in self._warned
            if len(self._warned) < WARNED:
                self._warned.add(about)
            say = self._host.log.info if again else self._host.log.warning
            say("ignored a part of its answer", at=event, fields=fields, known=", ".join(sorted(known)))


class CommandHook(OneShotHook):
    """Runs its command with `sh -c`: the context is on stdin, the result on stdout. An exit code other than 0 is a failure.

    All processes that it started end with the command, at its timeout at the latest.
    """

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._runner = Runner(self.spec, host)

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        more = self.contract.environment(event, self.cwd)
        finished = await self._runner.run(encode(context) + b"\n", deadline, more)
        if finished.exit_code:
            tail, said = finished.stderr_tail, last_words(finished.stderr_tail, SHOWN_TAIL)
            stderr = f"; it said: {said}{advice(self.spec, '', said)}" if said else ""
            code = finished.exit_code
            raise HookCrashedError(f"it {how_it_ended(code)}{stderr}", hook=self.name, exit_code=code, stderr_tail=tail)
        return read_result(finished.stdout)


def decision_in(stage: Stage[Any], text: bytes) -> Decision:
    """The decision in a text of JSON, in the form in which a process answers. An empty text continues.

    Raises `ValueError` if it is not a decision that the stage allows. That counts as a reply that cannot be used.
    """
    return read_decision(stage, read_result(text))


def read_result(text: bytes) -> dict[str, Any]:
    """The JSON object in a hook's output; an empty one for an empty output. Raises `ValueError` for any other output."""
    if not text.strip():
        return {}
    try:
        value = decode_value(text.strip())
    except ValueError as error:
        raise ValueError(f"its output is not JSON: {error}: {show(text.strip(), 80)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"its output is not a JSON object: {show(text.strip(), 80)}")
    return value
