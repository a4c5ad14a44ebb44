"""Calls to a remote hook. The answers come to the hook's own inbox."""

from __future__ import annotations

import functools
import hashlib
import secrets
from typing import TYPE_CHECKING, Any

from ...errors import HookTimeoutError, HookUnavailableError
from ...model.decisions import CONTINUE
from ...model.replies import plain_decision
from ...protocol.codec import between_id_and_params, decode, encode
from ...protocol.known_reply import COMPACT, CONTINUE_REPLY
from ...protocol.messages import Notification, Reply, Response, read_response
from ...transport.deadlines import Deadlines, no_answer
from ...transport.reactor import Failure
from ...wire import words
from ...wire.text import show
from . import subjects
from .errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg

    from ...hooks.base import Question
    from ...model.decisions import Decision
    from ...model.stages import Stage
    from ...observe.log import Log
    from ...transport.reactor import Promise, Reactor
    from .breaker import Breaker
    from .connection import Listening, NatsConnection

ABSENT, BUSY, FORBIDDEN, DIGEST = "absent", "busy", "forbidden", "digest"
BUSY_CODE = -32005
"""The code of a worker's error that has too many calls in flight. It has not begun this one."""
NOBODY = "503"
"""The status of the server's answer to a question that has no receiver."""
LONGEST_NAME = 32
"""The most letters and digits of a worker's name."""


class Calls:
    """Asks the workers that serve a hook, and gives each answer to the call that waits for it.

    Only the first answer to a call counts, and only if its subject repeats the digest of the question. All others are counted
    in `late` and ignored.
    """

    def __init__(
        self,
        connection: NatsConnection,
        served: str,
        breaker: Breaker,
        reactor: Reactor,
        log: Log,
        *,
        name: str,
        read: Callable[[Stage[Any], Reply], Decision],
    ) -> None:
        """`served` is the hook's name at its workers, `name` its name here. `read` makes a decision of an answer.

        `breaker` is told of each answer.
        """
        self._connection = connection
        self._breaker = breaker
        self._reactor = reactor
        self._log = log
        self._name = name
        self._read = read
        self._served = served
        tenant, host = connection.settings.tenant, connection.host
        self._subject_of = functools.lru_cache(lambda stage, worker: subjects.rpc(tenant, served, stage, host, worker))
        self._all_subjects = subjects.rpc(tenant, served, "*", host).partition("*")[0].lower()
        self._cancel_subject = subjects.cancel(tenant, served, host)
        self._inbox = f"{subjects.inbox(host)}.{secrets.token_hex(12)}"
        self._listening: Listening | None = None
        self._pending: dict[int, Promise] = {}
        """The calls that wait for an answer, by their numbers.

        Each is about a stage, the subject of its question, that of its reply, and the beginning of the subject of its answer.
        """
        self._next = 1
        self._deadlines = Deadlines(reactor, self, self._timed_out)
        self._on_cancel = self._abandoned  # stored, because each lookup of a method makes an object
        self.calls = self.timeouts = self.late = 0

    async def open(self) -> None:
        """Listen for answers."""
        self._listening = await self._connection.listen(f"{self._inbox}.>", self._received)

    async def aclose(self) -> None:
        """Fail the calls in flight, and stop listening."""
        self._fail(list(self._pending.values()), "the hook was stopped", "unreachable")
        self._deadlines.close()
        if self._listening is not None:
            await self._connection.unlisten(self._listening, drain=False)

    # The calls, as `Deadlines` sees them.

    @property
    def waiting(self) -> list[Promise]:
        """The calls that wait for an answer."""
        return list(self._pending.values())

    def in_flight(self) -> int:
        """The number of calls that wait for an answer."""
        return len(self._pending)

    @property
    def is_refused(self) -> bool:
        """Whether the server refused the inbox, or a question."""
        refused = self._connection.refused
        return self._hears_nothing or any(subject.startswith(self._all_subjects) for subject in refused)

    @property
    def _hears_nothing(self) -> bool:
        return self._connection.is_refused(f"{self._inbox}.>")

    # Asking.

    async def call(self, question: Question[Any], worker: str, now: float) -> Decision:
        """Ask this worker, or any. Returns the decision in the answer. Raises `HookError`."""
        connection, stage, deadline = self._connection, question.stage, question.deadline
        subject = self._subject_of(stage.name, worker)
        if connection.refused and (connection.is_refused(subject) or self._hears_nothing):
            raise HookUnavailableError(connection.last_error, cause=FORBIDDEN, hook=self._name)
        if deadline <= now:
            raise HookTimeoutError("its deadline had passed before it was asked", hook=self._name)
        number = self._next
        self._next += 1
        body = b'{"jsonrpc":"2.0","id":%d%b%b}' % (
            number,
            between_id_and_params(stage.method),
            question.shared.params(),
        )
        reply = f"{self._inbox}.{number}.{max(1, int((deadline - now) * 1000))}"
        promise = self._reactor.promise(self._on_cancel)
        promise.about = stage, subject, reply, f"{reply}.{hashlib.sha256(body).hexdigest()}."
        promise.request = number
        promise.deadline = deadline
        promise.limit = max(question.limit, deadline)
        promise.timeout = deadline - now
        self._pending[number] = promise
        try:
            await connection.publish(subject, body, reply)
        except BaseException as error:
            self._pending.pop(number, None)
            if isinstance(error, NatsError):
                raise HookUnavailableError(str(error), cause=error.cause, hook=self._name) from None
            raise
        self.calls += 1
        if deadline < self._deadlines.next:
            self._deadlines.add(promise)
        decision: Decision = await promise
        return decision

    def connection_changed(self) -> None:
        """Fail the calls that can get no answer, because the connection was lost or the server refused a subject."""
        connection, calls = self._connection, list(self._pending.values())
        if not connection.is_connected:
            self._fail(calls, str(connection.unreachable()), "unreachable")
        elif connection.refused:
            if not self._hears_nothing:
                calls = [call for call in calls if connection.is_refused(call.about[1])]
            self._fail(calls, connection.last_error, FORBIDDEN)

    def _fail(self, calls: list[Promise], why: str, cause: str) -> None:
        for call in calls:
            del self._pending[call.request]
        self._reactor.settle([(call, self._failure(why, cause)) for call in calls])

    # Giving up.

    def _abandoned(self, promise: Promise) -> None:
        if self._pending.pop(promise.request, None) is not None:
            self._tell_workers(promise)

    def _timed_out(self, promises: list[Promise]) -> None:
        ended = []
        for promise in promises:
            del self._pending[promise.request]
            self.timeouts += 1
            self._tell_workers(promise)
            message = no_answer(promise.timeout)
            ended.append((promise, Failure(HookTimeoutError(message, hook=self._name))))
        self._reactor.settle(ended)

    def _tell_workers(self, call: Promise) -> None:
        """Tell all workers that this call was cancelled."""
        self._connection.post(self._cancel_subject, encode({"reply": call.about[2]}))

    # Answers.

    def _received(self, message: Msg) -> None:
        number = message.subject[len(self._inbox) + 1 :].partition(".")[0]
        call = self._pending.get(int(number)) if number.isdecimal() else None
        if call is None:
            self.late += 1
            self._log.debug("ignored a late answer", line=show(message.data))
            return
        outcome = self._outcome(call, message)
        if outcome is not None:
            del self._pending[call.request]
            self._reactor.settle([(call, outcome)])

    def _outcome(self, promise: Promise, message: Msg) -> Any:
        """The decision in an answer, or a `Failure`; None for progress, after which the call still waits."""
        stage, _, reply, beginning = promise.about
        if message.subject == reply and not message.data and (message.headers or {}).get("Status") == NOBODY:
            return self._failure(f"no worker serves {self._served!r}", ABSENT)
        worker = message.subject.removeprefix(beginning)
        if len(worker) > LONGEST_NAME or not worker.isalnum():
            return self._failure("its answer is to another question: it does not repeat the digest", DIGEST)
        self._breaker.answered(worker)
        is_late = self._reactor.now() > promise.deadline
        if not (stage.approves or is_late):
            digits, short = COMPACT.read(message.data)
            if digits == b"%d" % promise.request:
                if short is CONTINUE_REPLY:
                    return CONTINUE  # as nearly always
                if isinstance(short, tuple) and (decision := plain_decision(stage, *short)) is not None:
                    return decision
        reply = self._reply(promise, message.data)
        if reply is None:
            return None
        if reply.code == BUSY_CODE:
            return self._failure(reply.error or "all its workers are busy", BUSY)
        if is_late:
            return Failure(HookTimeoutError("its answer came after the deadline", hook=self._name))
        try:
            return self._read(stage, reply)
        except Exception as error:  # it is raised to the caller
            error.__context__ = None  # its frames refer to the call, which will hold this error
            return Failure(error.with_traceback(None))

    def _reply(self, promise: Promise, line: bytes) -> Reply | None:
        """The reply to a call in a message; None for progress."""
        message = decode(line)
        if isinstance(message, Response):
            if message.id != promise.request or type(message.id) is not int:
                return Reply(error="its answer has the id of another question")
            return read_response(message, strict=promise.about[0].approves)
        if isinstance(message, Notification) and message.method == words.PROGRESS:
            if (now := self._reactor.now()) <= promise.deadline:
                promise.deadline = min(now + promise.timeout, promise.limit)
            return None
        return Reply(error=f"its answer is not a reply: {show(line)}")

    def _failure(self, why: str, cause: str) -> Failure:
        return Failure(HookUnavailableError(why, cause=cause, hook=self._name))
