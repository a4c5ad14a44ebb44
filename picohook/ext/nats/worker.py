"""Serves the hooks of a host over NATS, to hosts on other machines."""

from __future__ import annotations

import functools
import hashlib
import math
import re
import secrets
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import ValidationError

from ...engine.seat import longest
from ...errors import PicohookError
from ...model.encoded import Encoded
from ...model.stages import STAGES
from ...observe.log import Log
from ...observe.rate_limit import RateLimit
from ...protocol.codec import ENDS, TOO_MANY_VALUES, decode, decode_value, encode, envelope_of, has_too_many_values
from ...protocol.messages import Request
from ...transport.event_loop import current_reactor, is_cancellation
from ...transport.reactor import PROGRESS
from ...wire import words
from ...wire.text import cut, explain, show
from . import subjects
from .answers import answer_of
from .calls import BUSY_CODE
from .connection import LOGGED, WINDOW
from .errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nats.aio.msg import Msg

    from ...engine.engine import Engine
    from ...model.decisions import Outcome
    from ...model.stages import Stage
    from .connection import Listening, NatsConnection

MAX_IN_FLIGHT = 64
"""The most questions that a worker answers at the same time. It refuses more at once, so that a host can ask another worker."""
GRACE = 30.0
"""Seconds that open questions have when the worker ends."""
UPDATES = 4
"""The number of reports of progress in the time that the host gives for an answer."""
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
    ) -> None:
        """The host has to run. The worker closes neither the host nor the connection."""
        self._host = host
        self._connection = connection
        self._reactor = current_reactor()
        self._tenant = connection.settings.tenant
        self._max_in_flight = max_in_flight
        self._grace = grace
        self._log = Log()
        self.name = secrets.token_hex(4)
        """The worker's name in answers, and in the subject of questions to this worker alone."""
        self._ending = anyio.Event()
        self._changed = anyio.Event()
        self._idle = anyio.Event()
        self._serving: dict[str, list[Listening]] = {}
        self._calls: dict[str, _Question] = {}
        """The questions that are being answered, by the subject of the answer."""
        self._logged = RateLimit(LOGGED, WINDOW)
        self.strange = 0
        """Questions that were ignored because their answers would go to others than the host that asked."""

    @property
    def hooks(self) -> tuple[str, ...]:
        """The names of the hooks that are served now."""
        return tuple(self._serving)

    @property
    def in_flight(self) -> int:
        """The number of questions that are being answered."""
        return len(self._calls)

    def end(self) -> None:
        """Accept no more questions, answer the accepted ones, and end."""
        self._ending.set()
        self._changed.set()

    async def serve(self, *, ready: Callable[[], None] | None = None) -> None:
        """Serve until `end` is called. Calls `ready` when the server knows which hooks are served here."""
        self._host.on_mounted.add(self._host_changed)
        try:
            while not self._ending.is_set():
                self._changed = anyio.Event()
                await self._serve_what_is_mounted()
                if ready is not None and await self._flushed():
                    ready()
                    ready = None
                await self._changed.wait()
            await self._drain()
        finally:
            for question in self._calls.values():
                question.give_up()
            self._host.on_mounted.discard(self._host_changed)

    def _host_changed(self) -> None:
        self._changed.set()

    async def _serve_what_is_mounted(self) -> None:
        wanted = {hook.name for hook in self._host.hooks if hook.spec.asked_at and hook.spec.kind != "nats"}
        for name in self._serving.keys() - wanted:
            await self._stop(name)
        listen = self._connection.listen
        for name in sorted(wanted - self._serving.keys()):
            asked, queue = functools.partial(self._asked, name), subjects.token(name)
            self._serving[name] = [
                await listen(subjects.rpc(self._tenant, name, "*", "*"), asked, queue=queue),
                await listen(subjects.rpc(self._tenant, name, "*", "*", self.name), asked, queue=queue),
                await listen(subjects.cancel(self._tenant, name, "*"), self._cancelled),
            ]

    async def _flushed(self) -> bool:
        """Wait until the server knows all subscriptions. Returns False if the worker ends, or may not listen."""
        while not self._ending.is_set():
            if await self._connection.connected(1):
                try:
                    await self._connection.flush()
                except NatsError as error:
                    self._log.warning("not ready", why=str(error))
                else:
                    subjects_of = [one.subject for listening in self._serving.values() for one in listening]
                    if not any(map(self._connection.is_refused, subjects_of)):
                        return True
                    await anyio.sleep(1)
        return False

    async def _stop(self, name: str) -> None:
        *questions, cancels = self._serving.pop(name)
        for listening in questions:
            await self._connection.unlisten(listening, drain=True)
        await self._connection.unlisten(cancels, drain=False)

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

    def _asked(self, hook: str, message: Msg) -> None:
        if not subjects.is_inbox_of(message.subject.rsplit(".", 2)[1], message.reply):
            self.strange += 1
            if self._logged.take(self._reactor.now()):
                reply = show(message.reply.encode())
                self._log.warning("ignored a question", hook=hook, subject=message.subject, reply=reply)
        elif message.reply in self._calls:
            return  # the question came twice
        elif len(self._calls) >= self._max_in_flight:
            about = f"{len(self._calls)} questions are in flight at this worker"
            self._connection.post(self._answer_subject(message), _error(decode(message.data), BUSY_CODE, about))
        else:
            question = self._calls[message.reply] = _Question(hook, message, self._reactor.now())
            work, ended = functools.partial(self._answer, question), functools.partial(self._ended, question)
            question.give_up = self._reactor.spawn(work, ended)

    async def _answer(self, question: _Question) -> None:
        """Answer a question, unless it is cancelled or has no time left."""
        try:
            left = question.came + question.within - self._reactor.now()
            if left > 0:
                PROGRESS.set(functools.partial(self._tell_progress, question))
                await self._reply(question.message, await self._line(question, left))
        except Exception as error:  # a fault of ours must not end the worker
            self._log.error("a question could not be answered", hook=question.hook, why=repr(error))

    def _ended(self, question: _Question) -> None:
        del self._calls[question.message.reply]
        if not self._calls:
            self._idle.set()

    async def _line(self, question: _Question, within: float) -> bytes:
        """Ask the hook. Returns the line with its answer or its failure."""
        asked = self._read(question)
        if isinstance(asked, bytes):
            return asked
        stage, encoded = asked
        try:
            outcome = await self._host.ask_hook(question.hook, stage, encoded, within=longest(within))
        except PicohookError as error:  # the host is closing, or a payload cannot be sent
            return _error(question.number, HOOK_FAILED, str(error))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if is_cancellation(error):
                raise
            return _error(question.number, HOOK_FAILED, f"error: {explain(error)}")
        if not outcome.trail:
            return _error(question.number, NOT_SERVED, f"the hook is not asked at {stage.name}")
        return _line(question.number, stage, encoded, outcome)

    def _read(self, question: _Question) -> tuple[Stage[Any], Encoded[Any]] | bytes:
        """The stage and the payload of a question, whose number it notes; or the line with the error if it has none."""
        body = question.message.data
        if has_too_many_values(body):
            return _error(envelope_of(body[:ENDS], body[-ENDS:])[0], INVALID_REQUEST, TOO_MANY_VALUES)
        found = _QUESTION.match(body)
        if found is not None and body.endswith(b"}"):
            known = STAGES.get(found[2].decode())
            encoded = None if known is None else Encoded.read(known.payload, body[found.end() : -1])
            if known is not None and encoded is not None:
                question.number = int(found[1])
                return known, encoded
        # It is not written as hosts of picohook write it.
        request = decode(body)
        if not isinstance(request, Request) or type(request.id) is not int or not isinstance(request.params, dict):
            return _error(request, INVALID_REQUEST, "not a request with params and a whole number as its id")
        question.number = request.id
        stage = _STAGE_OF.get(request.method)
        if stage is None:
            return _error(request, NOT_SERVED, f"there is no method {cut(request.method, 80)!r}")
        try:
            return stage, Encoded(stage.given(request.params), own=True)
        except ValidationError as error:
            return _error(request, INVALID_PARAMS, str(error.errors(include_url=False)[0]["msg"]))

    def _tell_progress(self, question: _Question) -> None:
        """Tell the asking host of progress, `UPDATES` times at the most in the time that the host gives."""
        now = self._reactor.now()
        if now >= question.tells_at:
            question.tells_at = now + question.within / UPDATES
            line = b'{"jsonrpc":"2.0","method":"host.progress","params":{"id":%d}}' % question.number
            self._connection.post(self._answer_subject(question.message), line)

    async def _reply(self, message: Msg, line: bytes) -> None:
        """Answer, or log why it is not possible."""
        subject = self._answer_subject(message)
        try:
            try:
                await self._connection.publish(subject, line)
            except NatsError as error:
                if error.cause != "too_large":
                    raise
                shorter = _error(decode(message.data), HOOK_FAILED, f"its answer: {error}")
                await self._connection.publish(subject, shorter)
        except NatsError as error:
            self._log.warning("an answer was not sent", subject=message.subject, why=str(error))

    def _answer_subject(self, message: Msg) -> str:
        """The subject of an answer has the digest of the question as it came here, and this worker's name."""
        return f"{message.reply}.{hashlib.sha256(message.data).hexdigest()}.{self.name}"

    def _cancelled(self, message: Msg) -> None:
        reply = str(_object(message.data).get("reply"))
        if reply in self._calls and subjects.is_inbox_of(message.subject.rpartition(".")[2], reply):
            self._calls[reply].give_up()


class _Question:
    """A question that is being answered."""

    __slots__ = ("came", "give_up", "hook", "message", "number", "tells_at", "within")
    give_up: Callable[[], object]
    """Stop: the asker has given up."""

    def __init__(self, hook: str, message: Msg, came: float) -> None:
        self.hook = hook
        self.message = message
        self.came = came
        """The time when it came."""
        self.number = 0
        """The id of its request."""
        self.within = subjects.seconds_left(message.reply)
        """The seconds that the host gave for its answer."""
        self.tells_at = -math.inf
        """The time when its host may be told of progress."""


_STAGE_OF: Mapping[str, Stage[Any]] = {stage.method: stage for stage in STAGES.values()}
_QUESTION = re.compile(rb'\{"jsonrpc":"2\.0","id":([1-9][0-9]{0,17}),"method":"hook\.([a-z_]{1,40})","params":')
"""The beginning of a question as hosts of picohook write it, up to the params."""


def _line(number: int, stage: Stage[Any], encoded: Encoded[Any], outcome: Outcome[Any]) -> bytes:
    """The line with the answer that has the same effect as this outcome of asking the hook."""
    (entry,) = outcome.trail
    if entry.failure is not None:
        return _error(number, HOOK_FAILED, f"{entry.failure}: {entry.error}")
    plain = entry.notes is None and not entry.reason and entry.error is None
    if outcome.action == words.CONTINUE and not stage.approves and plain:
        return b'{"jsonrpc":"2.0","id":%d,"result":{"action":"continue"}}' % number  # as nearly always
    return encode({"jsonrpc": "2.0", "id": number, "result": answer_of(stage, encoded.payload, outcome)})


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
