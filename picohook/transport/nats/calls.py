"""Calls to a remote hook. The answers come to the hook's own inbox."""

from __future__ import annotations

import functools
import hashlib
import secrets
from typing import TYPE_CHECKING, Any

from ...errors import HookTimeoutError, HookUnavailableError, NatsError
from ...model.decisions import CONTINUE
from ...model.replies import plain_decision
from ...protocol.codec import between_id_and_params, decode, encode
from ...protocol.known_reply import COMPACT, CONTINUE_REPLY
from ...protocol.messages import Notification, Reply, Response
from ...protocol.responses import read_response
from ...wire import words
from ...wire.text import show
from ..deadlines import Deadlines, shown_seconds
from ..reactor import Failure
from . import headers, subjects
from .message import Message, answer_head, more

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...model.decisions import Decision
    from ...model.stages import Stage
    from ...observe.log import Log
    from ..reactor import Promise, Reactor
    from .connection import Listening, NatsConnection

ABSENT, BUSY, FORBIDDEN, DIGEST = "absent", "busy", "forbidden", "digest"
BUSY_CODE = -32005
"""The code of a worker's error that has too many calls in flight. It has not begun this one."""
PING = "ping"
"""The last token of the inbox at which workers answer pings."""


_HEAD = b"NATS/1.0\r\n%b: %%b\r\n%b: %%d\r\n%b: %%b\r\n\r\n" % tuple(
    name.encode() for name in (headers.ID, headers.DEADLINE, headers.DIGEST)
)


class Calls:
    """Asks the workers that serve a hook, and gives each answer to the call that waits for it.

    Only the first answer to a call counts, and only if it repeats the digest of the question. All others are counted in `late`
    and ignored.
    """

    def __init__(
        self,
        connection: NatsConnection,
        served: str,
        reactor: Reactor,
        log: Log,
        *,
        name: str,
        read: Callable[[Stage[Any], Reply], Decision],
        ponged: Callable[[], None],
    ) -> None:
        """`served` is the hook's name at its workers, `name` its name here. `read` makes a decision of an answer.

        `ponged` is called when a worker has answered `ping`.
        """
        self._connection = connection
        self._reactor = reactor
        self._log = log
        self._name = name
        self._read = read
        self._ponged = ponged
        self._served = served
        tenant = connection.settings.tenant
        self._subjects: dict[str, str] = {}
        self._subject_of = functools.partial(subjects.rpc, tenant, served)
        self._cancel_subject = subjects.cancel(tenant, served)
        self._inbox = f"{connection.inbox_prefix}.{secrets.token_hex(12)}"
        self._listening: Listening | None = None
        self._pending: dict[int, Promise] = {}
        """The calls that wait for an answer, by their numbers. Each is about a stage, a digest and the name of a question."""
        self._ended: list[tuple[Promise, Any]] = []
        """The calls that were answered in this read."""
        self._next = 1
        self._deadlines = Deadlines(reactor, self, self._timed_out)
        self._on_cancel = self._abandoned  # stored, because each lookup of a method makes an object
        self.calls = self.timeouts = self.late = 0

    async def open(self) -> None:
        """Listen for answers."""
        self._listening = await self._connection.listen(f"{self._inbox}.*", self._received)

    async def aclose(self) -> None:
        """Fail the calls in flight, and stop listening."""
        self.fail_all("the hook was stopped", "unreachable")
        self._deadlines.close()
        if self._listening is not None:
            await self._listening.stop(drain=False)

    # The calls, as `Deadlines` sees them.

    @property
    def waiting(self) -> list[Promise]:
        """The calls that wait for an answer."""
        return list(self._pending.values())

    def in_flight(self) -> int:
        """How many calls wait for an answer."""
        return len(self._pending)

    def pending_token(self, request_id: object) -> Promise | None:
        """The call with this number, if it waits for an answer."""
        found: Promise | None = self._pending.get(request_id)  # type: ignore[call-overload]
        return found

    @property
    def is_refused(self) -> bool:
        """Whether the server refused the inbox, or the subject of a stage that was asked."""
        refused = self._connection.is_refused
        return refused(f"{self._inbox}.*") or any(refused(subject) for subject in self._subjects.values())

    # Asking.

    def call(  # noqa: PLR0917 - by position: it is called for every question
        self, stage: Stage[Any], params: bytes, deadline: float, limit: float, now: float, question_id: str, trace: str
    ) -> Awaitable[Decision]:
        """Ask. Await the result at once for the decision in the answer. Raises `HookError`, and so does awaiting."""
        subject = self._subjects.get(stage.name)
        if subject is None:
            subject = self._subjects[stage.name] = self._subject_of(stage.name)
        connection = self._connection
        if connection.refused and (connection.is_refused(subject) or connection.is_refused(f"{self._inbox}.*")):
            raise HookUnavailableError(connection.last_error, cause=FORBIDDEN, hook=self._name)
        if deadline <= now:
            raise HookTimeoutError("its deadline had passed before it was asked", hook=self._name)
        number = self._next
        self._next += 1
        body = b'{"jsonrpc":"2.0","id":%d%b%b}' % (number, between_id_and_params(stage.method), params)
        digest = hashlib.sha256(body).hexdigest().encode()
        head = _HEAD % (question_id.encode(), max(1, int((deadline - now) * 1000)), digest)
        if trace:
            head = more(head, {headers.TRACE_PARENT: trace})
        message = Message(subject, body, f"{self._inbox}.{number}", head)
        try:
            connection.send(message, at_once=not self._pending)
        except NatsError as error:
            raise HookUnavailableError(str(error), cause=error.cause, hook=self._name) from None
        promise = self._reactor.promise(self._on_cancel)
        promise.about = stage, digest, question_id
        promise.request = number
        promise.deadline = deadline
        promise.limit = limit
        promise.timeout = deadline - now
        self._pending[number] = promise
        self.calls += 1
        if deadline < self._deadlines.next:
            self._deadlines.add(promise)
        return promise

    def ping(self) -> None:
        """Ask whether a worker serves the hook. `ponged` is called if one answers. Raises `NatsError`."""
        self._connection.publish(subjects.service("PING", self._served), reply=f"{self._inbox}.{PING}")

    def fail_all(self, why: str, cause: str) -> None:
        """Fail all calls in flight."""
        calls, self._pending = self._pending, {}
        self._reactor.settle(
            [(call, Failure(HookUnavailableError(why, cause=cause, hook=self._name))) for call in calls.values()]
        )

    def connection_changed(self) -> None:
        """Fail the calls that can get no answer, because the connection was lost or the server refused a subject."""
        connection = self._connection
        if not self._pending:
            return
        if not connection.is_connected:
            self.fail_all(str(connection.unreachable()), "unreachable")
        elif connection.is_refused(f"{self._inbox}.*"):
            self.fail_all(connection.last_error, FORBIDDEN)
        else:
            refused = [
                call for call in self._pending.values() if connection.is_refused(self._subject_of(call.about[0].name))
            ]
            ended = [
                (call, HookUnavailableError(connection.last_error, cause=FORBIDDEN, hook=self._name))
                for call in refused
            ]
            for promise, _ in ended:
                del self._pending[promise.request]
            self._reactor.settle([(promise, Failure(error)) for promise, error in ended])

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
            message = f"no answer within {shown_seconds(promise.timeout)} s"
            ended.append((promise, Failure(HookTimeoutError(message, hook=self._name))))
        self._reactor.settle(ended)

    def _tell_workers(self, call: Promise) -> None:
        """Tell all workers that this call was cancelled."""
        body = encode({"id": call.about[2], "reply": f"{self._inbox}.{call.request}"})
        try:
            self._connection.publish(self._cancel_subject, body)
        except NatsError as error:
            self._log.debug("a cancel was not sent", why=str(error))

    # Answers.

    def _received(self, message: Message) -> None:
        last = message.subject[len(self._inbox) + 1 :]
        if last == PING:
            if not message.is_from_nobody:
                self._ponged()
            return
        call = self._pending.get(int(last)) if last.isdecimal() else None
        if call is None:
            self.late += 1
            self._log.debug("ignored a late answer", line=show(message.data))
            return
        outcome = self._outcome(call, message)
        if outcome is not None:
            del self._pending[call.request]
            self._ended.append((call, outcome))
            if len(self._ended) == 1:
                self._connection.after_read(self._settle)

    def _settle(self) -> None:
        ended, self._ended = self._ended, []
        self._reactor.settle(ended)

    def _outcome(self, promise: Promise, message: Message) -> Any:
        """The decision in an answer, or a `Failure`; None for progress, after which the call still waits."""
        stage, digest, _ = promise.about
        if not message.data and message.is_from_nobody:
            return self._failure(f"no worker serves {self._served!r}", ABSENT)
        if message.head != answer_head(digest) and message.headers.get(headers.DIGEST) != digest.decode():
            return self._failure("its answer is to another question: it does not repeat the digest", DIGEST)
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
        except Exception as error:  # noqa: BLE001 - it is raised to the caller
            error.__context__ = None  # its frames refer to the call, which will hold this error
            return Failure(error.with_traceback(None))

    def _reply(self, promise: Promise, line: bytes) -> Reply | None:
        """The reply to a call in a message; None for progress."""
        message = decode(line)
        if isinstance(message, tuple):
            number, reply = message
            return reply if number == promise.request else Reply(error="its answer has the id of another question")
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
