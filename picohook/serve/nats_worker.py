"""Serves the hooks of a host over NATS, to hosts on other machines."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import socket
from collections import Counter, deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import ValidationError

from ..engine.seat import longest
from ..errors import NatsError, PicohookError
from ..model.answers import answer_of
from ..model.encoded import Encoded
from ..model.stages import STAGES
from ..observe.log import Log
from ..protocol.codec import decode, decode_value, encode
from ..protocol.messages import Request
from ..transport.event_loop import current_reactor
from ..transport.nats import headers, subjects
from ..transport.nats.calls import BUSY_CODE
from ..transport.nats.message import Message, answer_head
from ..transport.nats.service import ServedHook, encoded, tell
from ..transport.reactor import NEVER, PROGRESS, AskingTask, noticing
from ..wire import words
from ..wire.text import cut, explain
from ..wire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..engine.engine import Engine
    from ..model.decisions import Outcome
    from ..model.stages import Stage
    from ..observe.log import Logger
    from ..transport.nats.connection import Listening, NatsConnection

MAX_IN_FLIGHT = 64
"""The most questions that a worker answers at the same time. It refuses more at once, so that a host can ask another worker."""
AT_A_TIME = 32
"""The most questions that are begun in one round of the event loop. So the first answers are sent while others are made."""
GRACE = 30.0
"""Seconds that open questions have when the worker ends."""
UPDATES = 4
"""How often a worker tells a host of progress in the time that the host gives for an answer."""
HOOK_FAILED, NOT_SERVED, INVALID_PARAMS, INVALID_REQUEST = -32000, -32601, -32602, -32600


class NatsWorker:
    """Serves each hook of a host that is asked at stages, until `end` is called.

    Workers that serve the same hook share its questions. A question is answered by the hook alone, and not by the chain. If
    the hook fails, the answer is an error, and the asking host decides what the failure counts as.
    """

    def __init__(
        self,
        host: Engine,
        connection: NatsConnection,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        grace: float = GRACE,
        logger: Logger | None = None,
    ) -> None:
        """The host has to run. The worker closes neither the host nor the connection."""
        self._host = host
        self._connection = connection
        self._reactor = current_reactor()
        self._tenant = connection.settings.tenant
        self._max_in_flight = max_in_flight
        self._grace = grace
        self._log = Log(logger)
        self._scope = type(
            anyio.CancelScope()
        )  # that of this event loop, which `anyio.CancelScope` looks up at each call
        self._cancelled_error = anyio.get_cancelled_exc_class()
        self._ending = anyio.Event()
        self._changed = anyio.Event()
        self._idle = anyio.Event()
        self._serving: dict[str, tuple[ServedHook, list[Listening]]] = {}
        self._calls: dict[str, _Question] = {}
        """The questions that are being answered, by the subject of the answer."""
        self._waiting: deque[_Question] = deque()
        """The questions that are not begun yet."""
        self._context = copy_context()
        """The context of each task that answers questions, so that no hook's variables get from one question to another."""
        self._starting = 0
        """How many tasks were started that answer questions, and do not wait for an answer yet."""
        self.config_digest: Callable[[], str] = str
        """Returns the digest of the worker's configuration, for `$SRV.INFO`."""

    @property
    def hooks(self) -> tuple[ServedHook, ...]:
        """The hooks that are served now."""
        return tuple(served for served, _ in self._serving.values())

    @property
    def in_flight(self) -> int:
        """How many questions are being answered."""
        return len(self._calls)

    def end(self) -> None:
        """Accept no more questions, answer the accepted ones, and end."""
        self._ending.set()
        self._changed.set()

    async def serve(self, *, ready: anyio.Event | None = None) -> None:
        """Serve until `end` is called. Sets `ready` when the server knows which hooks are served here."""
        self._host.on_mounted.add(self._host_changed)
        try:
            async with anyio.create_task_group() as self._tasks:
                while not self._ending.is_set():
                    self._changed = anyio.Event()
                    await self._serve_what_is_mounted()
                    if ready is not None and await self._flushed():
                        ready.set()
                        ready = None
                    await self._changed.wait()
                await self._drain()
                self._tasks.cancel_scope.cancel()
        finally:
            for question in self._calls.values():
                question.give_up()
            self._host.on_mounted.discard(self._host_changed)

    def _host_changed(self) -> None:
        self._changed.set()

    async def _serve_what_is_mounted(self) -> None:
        wanted = {hook.name for hook in self._host.hooks if _is_served(hook)}
        for name in self._serving.keys() - wanted:
            await self._stop(name)
        for name in sorted(wanted - self._serving.keys()):
            served = ServedHook(name, subjects.rpc(self._tenant, name, "*"))
            self._serving[name] = (
                served,
                [
                    await self._connection.listen(
                        served.subject, functools.partial(self._asked, served), queue=subjects.token(name)
                    ),
                    await self._connection.listen(subjects.cancel(self._tenant, name), self._cancelled),
                    *await tell(self._connection, served, self._tell),
                ],
            )

    async def _flushed(self) -> bool:
        while not self._ending.is_set():
            if await self._connection.connected(1):
                try:
                    await self._connection.flush()
                except NatsError as error:
                    self._log.warning("not ready", why=str(error))
                else:
                    return True
        return False

    async def _stop(self, name: str) -> None:
        _, (questions, *others) = self._serving.pop(name)
        await questions.stop()
        for one in others:
            await one.stop(drain=False)

    async def _drain(self) -> None:
        """Accept no more questions, and answer the accepted ones within the grace."""
        with anyio.move_on_after(self._grace):
            for name in tuple(self._serving):
                await self._stop(name)
            while self._calls:
                self._idle = anyio.Event()
                await self._idle.wait()
        if self._connection.is_connected:
            try:
                await self._connection.flush()
            except NatsError as error:
                self._log.warning("the last answers may be lost", why=str(error))

    # Questions.

    def _asked(self, served: ServedHook, message: Message) -> None:
        if not message.reply or message.reply in self._calls:  # nobody waits for an answer, or the question came twice
            return
        served.requests += 1
        if len(self._calls) >= self._max_in_flight:
            served.busy += 1
            about = f"{len(self._calls)} questions are in flight at this worker"
            self._reply(served, message, _error(decode(message.data), BUSY_CODE, about))
            return
        self._calls[message.reply] = question = _Question(served, message, self._reactor.now())
        served.in_flight += 1
        self._waiting.append(question)
        if not self._starting:
            self._start()

    def _start(self) -> None:
        """Start a task that answers questions."""
        self._starting += 1
        self._context.copy().run(self._reactor.spawn, _Answering(self, self._scope()).run, _nothing)

    def next(self) -> _Question | None:
        """The question that waits longest; None if none waits. Called by the tasks that answer."""
        return self._waiting.popleft() if self._waiting else None

    def began(self, *, more: bool) -> None:
        """A task that was started has begun to wait for an answer, or has ended. Others answer what is left.

        With `more`, it is likely that they have to wait, too.
        """
        self._starting -= 1
        wanted = min(len(self._waiting), AT_A_TIME if more else 1)
        while self._starting < wanted:
            self._start()

    async def answer(self, question: _Question, task: AskingTask) -> None:
        """Answer a question, unless it has no time left."""
        now, served, message = self._reactor.now, question.served, question.message
        begun = now()
        try:
            question.within = within = question.came + _seconds_left(message) - begun
            if within <= 0:
                served.cancelled += 1
                return
            asked = self._read(question)
            if isinstance(asked, bytes):
                self._reply(served, message, asked)
                return
            stage, encoded = asked
            try:
                outcome = await self._host.ask_hook(served.name, stage, encoded, within=longest(within), task=task)
            except PicohookError as error:  # the host is closing, or a payload cannot be sent
                line = self._failed(served, question.number, HOOK_FAILED, str(error))
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # a function may raise `CancelledError` though nobody cancelled it
                if task.is_cancelled and isinstance(error, self._cancelled_error):
                    raise
                line = self._failed(served, question.number, HOOK_FAILED, f"error: {explain(error)}")
            else:
                line = self._line(question, stage, encoded, outcome)
            self._reply(served, message, line)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the worker
            self._log.error("a question could not be answered", hook=served.name, why=repr(error))
        finally:
            served.seconds += now() - begun

    def ended(self, question: _Question) -> None:
        """The question was answered, or nobody wants its answer."""
        question.served.in_flight -= 1
        del self._calls[question.message.reply]
        if not self._calls:
            self._idle.set()

    def _read(self, question: _Question) -> tuple[Stage[Any], Encoded[Any]] | bytes:
        """The stage and the payload of a question, whose number it notes; or the line with the error if it has none."""
        body = question.message.data
        found = _QUESTION.match(body)
        if found is not None and body.endswith(b"}"):
            known = STAGES.get(found[2].decode())
            encoded = None if known is None else Encoded.read(known.payload, body[found.end() : -1])
            if known is not None and encoded is not None:
                question.number = int(found[1])
                return known, encoded
        # It is not written as hosts of picohook write it.
        served, request = question.served, decode(body)
        if not isinstance(request, Request) or type(request.id) is not int or not isinstance(request.params, dict):
            return self._failed(
                served, request, INVALID_REQUEST, "not a request with params and a whole number as its id"
            )
        question.number = request.id
        stage = _STAGE_OF.get(request.method)
        if stage is None:
            return self._failed(served, request, NOT_SERVED, f"there is no method {cut(request.method, 80)!r}")
        try:
            return stage, Encoded(stage.given(request.params), own=True)
        except ValidationError as error:
            return self._failed(served, request, INVALID_PARAMS, str(error.errors(include_url=False)[0]["msg"]))

    def _line(self, question: _Question, stage: Stage[Any], encoded: Encoded[Any], outcome: Outcome[Any]) -> bytes:
        """The line with the answer that has the same effect as this outcome of asking the hook."""
        served, number = question.served, question.number
        if not outcome.trail:
            return self._failed(served, number, NOT_SERVED, f"the hook is not asked at {stage.name}")
        (entry,) = outcome.trail
        if entry.failure is not None:
            return self._failed(served, number, HOOK_FAILED, f"{entry.failure}: {entry.error}")
        plain = entry.notes is None and not entry.reason and entry.error is None
        if outcome.action == words.CONTINUE and not stage.approves and plain:
            return b'{"jsonrpc":"2.0","id":%d,"result":{"action":"continue"}}' % number  # as nearly always
        return encode({"jsonrpc": "2.0", "id": number, "result": answer_of(stage, encoded.payload, outcome)})

    def tell_progress(self, question: _Question) -> None:
        """Tell the asking host of progress, `UPDATES` times at the most in the time that the host gives."""
        now = self._reactor.now()
        if now >= question.tells_at:
            question.tells_at = now + question.within / UPDATES
            line = b'{"jsonrpc":"2.0","method":"host.progress","params":{"id":%d}}' % question.number
            self._reply(question.served, question.message, line)

    def _failed(self, served: ServedHook, request: object, code: int, why: str) -> bytes:
        served.errors += 1
        served.last_error = why
        return _error(request, code, why)

    def _reply(self, served: ServedHook, message: Message, line: bytes) -> None:
        """Answer, or log why it is not possible. The digest is of the question as it came here."""
        head = answer_head(hashlib.sha256(message.data).hexdigest().encode())
        send, at_once = self._connection.send, len(self._calls) <= 1
        try:
            try:
                send(Message(message.reply, line, "", head), at_once=at_once)
            except NatsError as error:
                if error.cause != "too_large":
                    raise
                shorter = self._failed(served, decode(message.data), HOOK_FAILED, f"its answer: {error}")
                send(Message(message.reply, shorter, "", head), at_once=at_once)
        except NatsError as error:
            self._log.warning("an answer was not sent", hook=served.name, why=str(error))

    def _cancelled(self, message: Message) -> None:
        question = self._calls.get(str(_object(message.data).get("reply")))
        if question is not None:
            question.give_up()

    # Status of the worker.

    def _tell(self, served: ServedHook, verb: str, message: Message) -> None:
        if not message.reply:
            return
        metadata = {
            "tenant": self._tenant,
            "hook": served.name,
            "host": self._connection.settings.host or socket.gethostname(),
            "pid": str(os.getpid()),
            "picohook": VERSION,
            "config": self.config_digest(),
        }
        data: dict[str, Any] = {"max_in_flight": self._max_in_flight}
        if verb == "STATS":
            mounted = next((hook for hook in self._host.hooks if hook.name == served.name), None)
            stages = () if mounted is None else mounted.metrics.stages.values()
            data["failures"] = sum((one.failures for one in stages), Counter())
            data["refused_edits"] = sum(one.refused_edits for one in stages)
            data["state"] = "gone" if mounted is None else mounted.status().state
        try:
            self._connection.publish(message.reply, encoded(served.wire(verb, metadata, data)))
        except NatsError as error:
            self._log.debug("statistics were not sent", why=str(error))


class _Question:
    """A question that is to be answered."""

    __slots__ = ("came", "is_given_up", "message", "number", "served", "task", "tells_at", "within")

    def __init__(self, served: ServedHook, message: Message, came: float) -> None:
        self.served = served
        self.message = message
        self.came = came
        """When it came."""
        self.task: AskingTask | None = None
        """The task that answers it; None if it is not begun."""
        self.is_given_up = False
        """Whether its host gave it up before it was begun."""
        self.number = 0
        """The id of its request."""
        self.within = 0.0
        """The seconds for its answer."""
        self.tells_at = -math.inf
        """When its host may be told of progress."""

    def give_up(self) -> None:
        """The answer is not wanted any more."""
        self.is_given_up = True
        if self.task is not None:
            self.task.give_up()


class _Answering(AskingTask):
    """A task that answers questions: one after another, as long as their answers are there at once.

    When it has to wait for an answer, another task is started for the next questions.
    """

    __slots__ = ("_at_once", "_is_starting", "_question", "_worker")

    def __init__(self, worker: NatsWorker, scope: anyio.CancelScope) -> None:
        super().__init__(scope)
        self._worker = worker
        self._is_starting = True
        """Whether it has not waited for an answer yet."""
        self._at_once = 0
        """How many answers were there at once."""
        self._question: _Question | None = None

    def waits(self) -> None:
        super().waits()
        if self._is_starting:
            self._is_starting = False
            self._worker.began(more=not self._at_once)

    async def run(self) -> None:
        worker = self._worker
        PROGRESS.set(self._tell_progress)
        try:
            with self._scope:
                await noticing(self._answer(), self.waits)
        finally:  # a hook can raise anything
            if self._question is not None and self._scope.cancelled_caught:
                self._question.served.cancelled += 1
            if self._is_starting:
                worker.began(more=False)

    async def _answer(self) -> None:
        worker, context = self._worker, copy_context()
        while self._is_starting and self._at_once < AT_A_TIME and (question := worker.next()) is not None:
            self._question = question
            self.ends_at(NEVER)
            question.task = self
            try:
                if question.is_given_up:
                    question.served.cancelled += 1
                else:
                    await worker.answer(question, self)
            finally:
                worker.ended(question)
            self._at_once += 1
            if copy_context() != context:  # the hook has set variables, which are not for the next question
                break

    def _tell_progress(self) -> None:
        if self._question is not None:
            self._worker.tell_progress(self._question)


def _nothing() -> None:
    """A task has ended that answers questions."""


def _seconds_left(message: Message) -> float:
    """The seconds that the host gives for the answer; no limit if it says none."""
    found = _DEADLINE.search(message.head)
    return math.inf if found is None else int(found[1]) / 1000


_DEADLINE = re.compile(rb"\r\n%b:[ \t]*([0-9]{1,15})[ \t]*\r\n" % headers.DEADLINE.encode())
"""The header with the milliseconds that are left. With more digits, it is no time that a clock has."""


def _is_served(hook: Any) -> bool:
    return bool(hook.spec.asked_at) and hook.spec.nats is None


_STAGE_OF: Mapping[str, Stage[Any]] = {stage.method: stage for stage in STAGES.values()}
_QUESTION = re.compile(rb'\{"jsonrpc":"2\.0","id":([1-9][0-9]{0,17}),"method":"hook\.([a-z_]{1,40})","params":')
"""The beginning of a question as hosts of picohook write it, up to the params."""


def _error(number: object, code: int, why: str) -> bytes:
    """The line with an error for the question with this number, or for this request."""
    if isinstance(number, Request):
        number = number.id
    number = number if type(number) in {int, str} else None
    return encode({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": cut(why, words.MAX_REASON)}})


def _object(data: bytes) -> dict[str, Any]:
    """The JSON object in a message; an empty one if it has none."""
    try:
        value = decode_value(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
