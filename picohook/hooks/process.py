"""A hook that is a process, and speaks the protocol on its standard streams. The process is kept running.

::

    STARTING -> READY -> BACKOFF -> STARTING ...      a process ended, the next one is due
        |         |         |
        +---------+---------+-> FAILED                a permanent cause, or too many starts; `reset` leads to BACKOFF
    any -> STOPPING -> STOPPED                        the host closes, or the hook is unmounted

One task for each hook goes through the states. Calls do not pass through that task: they use
`channel` if it is set, and otherwise wait in `ready` until their own deadline.
"""

import signal
from collections.abc import Awaitable
from dataclasses import asdict, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import (
    HookCrashedError,
    HookError,
    HookRefusedError,
    HookReplyError,
    HookTimeoutError,
)
from ..model.decisions import CONTINUE, Decision
from ..model.events import Event
from ..model.replies import read_decision
from ..model.spec import Parts
from ..model.stages import Stage
from ..process.advice import advice
from ..process.child import START_WAIT, Child
from ..process.plan import ChangedError, DelayedError, Plan, Planner
from ..process.restart import RestartBudget, StartTurns
from ..protocol.messages import Reply
from ..transport.channel import CLOSED_OUTPUT, PIPE_ENDS, Channel, HookCounters
from ..wire import words
from ..wire.platforms import is_ending
from ..wire.text import last_words
from .base import Hook, HookStatus, HostServices, Question, StateChange

if TYPE_CHECKING:
    from ..transport.reactor import Waiter

EXIT_WAIT, END_WAIT = 0.2, 5.0
"""Seconds to wait for the end of a process whose pipe broke, so that the error can name its exit code: before a look at the
process, and after one that shows that it is ending."""
SHOWN_TAIL = 500
"""The number of characters of stderr that an error shows; its `stderr_tail` has more."""
NOT_RUN = "does it call app.run(), or read its input in a loop, and stay in the foreground?"
FAULT_GRACE = 0.5
"""Seconds from TERM to KILL for a process that broke the protocol or hangs."""


class HookState(StrEnum):
    """The state of a hook's process."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "restarting"
    FAILED = "failed"
    STOPPING = "stopping"


class _Life:
    """One process, from its start to its end."""

    def __init__(self, began: float) -> None:
        self.began = began
        """The time at which its start had its turn."""
        self.program = ""
        self.missing = ""
        """Advice about a file that its command names and that does not exist."""
        self.child: Child
        """Set when it is started, with its channel."""
        self.channel: Channel | None = None
        self.over = False
        self.fault = ""
        """The fault that made it useless; empty if it ended by itself or was stopped."""
        self.error: HookError | None = None
        self.logged = ""
        """The reason why it ended, if failed calls have logged that already; else empty."""
        self.ready = False
        """Whether it has answered hello, after which its start cannot be cancelled."""
        self.starting = anyio.CancelScope()
        self.greeting = anyio.CancelScope()

    def cancel_start(self) -> None:
        """Stop waiting for its start and its hello."""
        if not self.ready:
            self.starting.cancel()
            self.greeting.cancel()


class ProcessHook(Hook):
    """A hook whose process is asked by the protocol. It is restarted when it ends, and given up when it ends too often."""

    in_process = False
    takes_bytes = True
    keeps_decisions = False

    def open(self, host: HostServices) -> None:
        self.state = HookState.STARTING
        self.channel: Channel | None = None
        self.counters = HookCounters()
        self.starts = 0
        self.last_error: HookError | None = None
        self._first_attempt = anyio.Event()
        """Set when the first start has succeeded or failed."""
        self._host = host
        self._now = host.reactor.now
        self._log = host.log
        self._turns = host.shared(StartTurns)
        self._planner = Planner(self.spec, host.verify)
        self._life: _Life | None = None
        self._child: Child | None = None
        self._budget = RestartBudget(self.spec.restart)
        self._waiting: dict[Waiter, None] = {}
        self._wake = anyio.Event()
        self._stopping = False

    @property
    def parts(self) -> Parts | None:
        """The hook's settings for parts of a response; None while it is not ready, or if its hello does not offer `stream`."""
        offers = self.channel is not None and words.STREAM in self.channel.capabilities
        return self.spec.parts if offers else None

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        channel = self.channel
        if channel is None:
            return self._handle_when_ready(question)
        return channel.call(question.stage, question.shared.params(), question.deadline, question.limit, question.begun)

    async def _handle_when_ready(self, question: Question[Any]) -> Decision:
        channel = await self.ready(question.deadline)
        return await channel.call(
            question.stage, question.shared.params(), question.deadline, question.limit, self._now()
        )

    def read(self, stage: Stage[Any], answer: Reply) -> Decision:
        if answer.error is None:
            if answer.warning:
                self._host.log.warning("accepted a sloppy answer", method=stage.method, why=answer.warning)
            return read_decision(stage, answer.result)
        if answer.code is None:
            raise HookReplyError(answer.error, hook=self.name)
        # A hook with a `WholeModeSpec` is asked at all stages of a mode, including those that its configuration does not name.
        if answer.code == words.METHOD_NOT_FOUND and stage.name not in self.spec.stages and not stage.approves:
            return CONTINUE
        why = f"error {answer.code}: {answer.error}"
        if answer.code == words.METHOD_NOT_FOUND and stage.name in self.spec.stages:
            why += f" (it has no handler for {stage.name}, which its `stages` name)"
        raise HookRefusedError(why + advice(self.spec, "", answer.error), code=answer.code, hook=self.name)

    def notify(self, event: Event) -> None:
        if self.channel is None:
            self.counters.dropped_events += 1
        else:
            self.channel.notify(event.line(self.spec.events))

    async def flushed(self, deadline: float) -> bool:
        return self.channel is not None and await self.channel.flushed(deadline)

    @property
    def pid(self) -> int | None:
        """The pid of the running process; None if there is no process."""
        return None if self._child is None or self._child.exited.is_set() else self._child.pid

    @property
    def containment(self) -> str | None:
        """The tier of containment of the running process; None if there is no process."""
        return None if self.pid is None or self._child is None else self._child.containment

    async def ready(self, deadline: float) -> Channel:
        """The channel of a process that has answered hello. Waits for one until the deadline. Raises `HookError`."""
        while self.channel is None:
            if self.state in {HookState.FAILED, HookState.STOPPING, HookState.STOPPED}:
                how = "it was given up" if self.state is HookState.FAILED else f"it is {self.state.value}"
                raise self._crashed(how + self._last_words())
            waiter = self._host.reactor.waiter()
            self._waiting[waiter] = None
            try:
                await waiter.wait(deadline)
            except TimeoutError:
                message = f"it is {self.state.value}, and was not ready in time{self._last_words()}"
                raise HookTimeoutError(message, hook=self.name) from None
            finally:
                self._waiting.pop(waiter, None)
        return self.channel

    async def started(self) -> None:
        await self._first_attempt.wait()

    @property
    def error(self) -> HookError | None:
        return None if self.state is HookState.READY else self.last_error

    def status(self) -> HookStatus:
        return replace(
            super().status(),
            state=self.state.value,
            pid=self.pid,
            starts=self.starts,
            containment=self.containment,
            **asdict(self.counters),
        )

    def reset(self) -> None:
        """Start it again after the host gave it up, with a fresh budget of starts."""
        self._budget.reset()
        self._wake.set()
        if self.state is HookState.FAILED and not self._stopping:
            self._enter(HookState.BACKOFF)  # from now on calls wait for it

    def restart(self) -> None:
        """Restart its process. Calls in flight fail."""
        if self._life is not None and not self._life.over:
            self._life.error = self._crashed("it was restarted")
            self._over(self._life, "")
        self.reset()

    def stop(self) -> None:
        self._stopping = True
        if self.channel is not None and self.channel.is_idle:
            # Now and not in `run`, so that all hooks of a host end at the same time, beside the host's work.
            self.channel.close_stdin()
            self.channel = None
        if self._life is not None:
            self._life.cancel_start()
        self._wake.set()

    async def run(self) -> None:
        """Start, serve and restart until stopped. If cancelled, this still ends its process."""
        try:
            while not self._stopping:
                if self._budget.allows(self._now()):
                    try:
                        await self._serve_once()
                        continue
                    except Exception as error:  # no error here may reach the embedder's task group
                        self._failed(self._crashed(f"its supervisor broke: {error!r}"))
                if not self._stopping:
                    self._give_up()
                    await self._sleep()
        finally:
            if self.state is not HookState.FAILED or self._stopping:
                self._enter(HookState.STOPPED)

    async def _serve_once(self) -> None:
        life = self._life = _Life(self._now())
        try:
            error = await self._run_process(life)
        finally:
            self._turns.over(life)
        if self._stopping:
            return
        budget = self._budget
        budget.ended(life.began, self._now())
        again = budget.failures > 1 and str(error) == str(self.last_error)
        logged = life.logged == str(error)
        self._failed(error)
        (self._log.info if again or logged else self._log.warning)("ended", why=str(error))
        if not budget.allows(self._now()):
            self._give_up()
            return
        self._enter(HookState.BACKOFF)
        self._wake = anyio.Event()  # the end of the process may have set it, and that must not shorten the delay
        await self._sleep(budget.delay())

    def _failed(self, error: HookError) -> None:
        self.last_error, self.failures.last = error, str(error)

    def _give_up(self) -> None:
        self._budget.given_up = True
        if self.state is not HookState.FAILED:
            self._enter(HookState.FAILED)
            self._log.error("failed: it is not started again until it is reset", why=str(self.last_error))

    async def _sleep(self, delay: float | None = None) -> None:
        """Wait until this task is woken or the delay is over."""
        with anyio.move_on_after(delay):
            await self._wake.wait()
        if self._wake.is_set():
            self._wake = anyio.Event()

    async def _run_process(self, life: _Life) -> HookError:
        """Run one process from its start to its end. Returns the reason why it ended."""
        self._enter(HookState.STARTING)
        try:
            with life.starting:
                await self._turns.take(life)
                life.began = self._now()
                seen, planned = await self._planner.plan(self._now() + START_WAIT)
                await self._spawn(life, planned)
        except TimeoutError:
            return self._crashed("was not started in time")
        except HookError as error:
            if isinstance(error, ChangedError | HookTimeoutError):  # counted, else files that hang are tried for ever
                self._budget.started(self._now())
            else:
                self._budget.given_up = not isinstance(error, DelayedError)
            return error
        if life.channel is None:
            return life.error or self._crashed("it is being stopped")
        try:
            with life.greeting:
                try:
                    patience = self.spec.hello_timeout or self._host.timeouts.hello
                    await life.channel.hello(self.spec.modes, self._now() + patience)
                    await self._planner.require_unchanged(seen, self._now() + START_WAIT)
                    if not life.over:
                        self.channel = life.channel
                    life.ready = True
                except HookError as error:
                    life.error = error
                    life.over = True
            self._turns.over(life)
            if not (life.over or self._stopping):
                self._enter(HookState.READY)
                self._log.info("ready", pid=life.child.pid)
            while not life.over and not self._stopping:
                await self._sleep()
        finally:
            self.channel = None
            with anyio.CancelScope(shield=True):
                ended = await self._end(life, life.child, life.channel)
        return ended

    def _crashed(self, why: str) -> HookCrashedError:
        return HookCrashedError(why, hook=self.name)

    async def _spawn(self, life: _Life, planned: Plan) -> None:
        def exited() -> None:
            channel.drain()
            if not channel.end_is_explained():
                self._over(life, "")

        host = self._host
        try:
            deadline = self._now() + START_WAIT
            child = await Child.start(host, planned, deadline=deadline, name=self.name, on_exit=exited)
        finally:
            planned.close()
        channel = Channel(
            host.reactor,
            child.stdout,
            child.stdin,
            name=self.name,
            log=self._log,
            counters=self.counters,
            read=self.read,
            on_fault=lambda fault: self._over(life, fault),
            max_line=self.spec.max_line_bytes,
            max_in_flight=self.spec.max_in_flight,
            tap=host.tap,
        )
        self._child = life.child = child
        life.channel = channel
        life.program, life.missing = planned.argv[0], planned.missing
        self._budget.started(self._now())
        self.starts += 1

    def _over(self, life: _Life, fault: str) -> None:
        """Note that this process no longer serves. The callbacks of its channel and its child call this.

        A process that is being stopped has its graces whatever it does.
        """
        if life.over or self._stopping:
            return
        life.over = True
        life.fault = fault
        life.cancel_start()
        if self._life is life:
            self.channel = None
            self._wake.set()

    async def _end(self, life: _Life, child: Child, channel: Channel) -> HookError:
        grace = self.spec.grace
        polite = not life.over
        if polite:
            self._enter(HookState.STOPPING)
            await channel.flushed(self._now() + grace)
        elif life.fault in PIPE_ENDS and not child.exited.is_set():
            with anyio.move_on_after(EXIT_WAIT):
                await child.exited.wait()
            if is_ending(child.pid):
                with anyio.move_on_after(END_WAIT):
                    await child.exited.wait()
        error = life.error or self._why(life, child)
        channel.close(error)
        if channel.failed_calls and not self.spec.retry:
            life.logged = str(error)
        channel.close_stdin()
        if polite:
            await child.stop([(None, grace), (signal.SIGTERM, grace)])
        else:
            await child.stop([(signal.SIGTERM, min(grace, FAULT_GRACE))])
        channel.release()
        # On a busy machine the end of a process may be seen after the end of its output.
        return error if polite else life.error or self._why(life, child, signalled=True)

    def _why(self, life: _Life, child: Child, *, signalled: bool = False) -> HookError:
        """The reason why the process ended. `signalled`: the host has sent a signal, so it caused an end by TERM or KILL."""
        if not life.over:
            return self._crashed("it is being stopped")
        ours = signalled and child.exit_code in {-signal.SIGTERM, -signal.SIGKILL}
        by_itself = child.exited.is_set() and (not life.fault or (life.fault in PIPE_ENDS and not ours))
        ended = f"it {child.describe_exit()}" if by_itself else f"{life.fault}, and was killed"
        if by_itself and child.exit_code == 0 and not life.ready:
            ended += f" before it answered hook.hello: {NOT_RUN}"
        elif life.fault == CLOSED_OUTPUT and not by_itself:
            ended += ": keep standard output open, for the answers"
        said = last_words(child.stderr_tail, SHOWN_TAIL)
        ended += f"; it said: {said}" if said else ""
        ended += advice(self.spec, life.program, said) or ("" if life.ready else life.missing)
        return HookCrashedError(ended, hook=self.name, exit_code=child.exit_code, stderr_tail=child.stderr_tail)

    def _last_words(self) -> str:
        return f": {self.last_error}" if self.last_error is not None else ""

    def _enter(self, state: HookState) -> None:
        self.state = state
        if state is not HookState.STARTING:
            self._first_attempt.set()
        for waiter in self._waiting:
            waiter.settle(None)
        if self._host.notice is not None:
            self._host.notice(StateChange(self.name, state.value, self.pid))
        if state is HookState.READY and self.spec.parts is not None and self.parts is None:
            why = (
                f"its hello does not offer the capability `{words.STREAM}`: responses wait until it has seen them whole"
            )
            self._log.warning("stream has no effect", why=why)
