"""One hook's succession of processes: when to start one, when to end one, when to give up.

::

    STARTING -> READY -> BACKOFF -> STARTING ...      a process ended, the next one is due
        |                   |
        +------> FAILED <---+                         permanent cause, or too many starts; `reset` leaves it
    any -> STOPPING -> STOPPED                        the host closes, or the hook is unmounted

One task a hook walks this circle. Calls do not pass through it: they take `channel` while it is there, and otherwise wait in
`ready` for the state to change, within their own deadline.
"""

from __future__ import annotations

import os
import random
import signal
from collections import deque
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import HookCrashedError, HookError, HookTimeoutError, PicohookError
from ..transport.channel import PIPE_ENDS, Channel, Counters
from ..wire.text import last_words
from .aside import Aside, NoThreadError
from .child import Child, SpawnDelayedError
from .plan import ChangedError, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model.decisions import Decision
    from ..model.spec import HookSpec
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..protocol.messages import Answer
    from ..protocol.raw_line import RawLine
    from ..transport.reactor import Reactor, Waiter
    from .plan import Plan, Seen, Verify
    from .spawn import Spawner

BACKOFF_FIRST = 0.05
BACKOFF_MOST = 5.0
STABLE = 10.0
"""A process that served so long was no part of a crash loop."""
START_WAIT = 10.0
"""How long the system may take to start a process, before its hello is waited for."""
LAST_WORDS = 0.05
"""How long a process whose pipe broke may take to be seen ending, so that the error can give its exit code."""
SHOWN_TAIL = 500
"""Characters of stderr that an error shows; all that is kept is in its `stderr_tail`."""
FAULT_GRACE = 0.5
"""From TERM to KILL for a process that broke the protocol or hangs."""


class HookState(StrEnum):
    """Where a hook's process is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "restarting"
    FAILED = "failed"
    STOPPING = "stopping"


class _Life:
    """One process, from its start to its end."""

    def __init__(self) -> None:
        self.over = False
        self.fault = ""
        """What it did that made it useless; empty when it ended by itself or was told to."""
        self.error: HookError | None = None
        self.told = ""
        """Why it ended, as the questions that failed by it were told, which is logged with them."""
        self.starting = anyio.CancelScope()
        self.greeting = anyio.CancelScope()

    def hurry(self) -> None:
        """Wait no longer for it to come up."""
        self.starting.cancel()
        self.greeting.cancel()


class Supervisor:
    """Keeps one hook's process alive."""

    def __init__(
        self,
        spec: HookSpec,
        reactor: Reactor,
        spawner: Spawner,
        *,
        log: Log,
        read: Callable[[Stage[Any], Answer], Decision],
        hello_timeout: Callable[[], float],
        verify: Verify | None = None,
        on_state: Callable[[HookState], None] | None = None,
        tap: Callable[[RawLine], None] | None = None,
    ) -> None:
        self.spec = spec
        self.state = HookState.STARTING
        self.channel: Channel | None = None
        self.counters = Counters()
        self.starts = 0
        self.last_error: HookError | None = None
        self.first_attempt = anyio.Event()
        """Set when the first start has succeeded or failed."""
        self._reactor = reactor
        self._spawner = spawner
        self._log = log
        self._read = read
        self._hello_timeout = hello_timeout
        self._verify = verify
        self._on_state = on_state
        self._aside = Aside()
        self._tap = tap
        self._life: _Life | None = None
        self._child: Child | None = None
        self._recent: deque[float] = deque()
        self._failures = 0
        self._waiting: list[Waiter] = []
        self._wake = anyio.Event()
        self._permanent = False
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._child is None or self._child.exited.is_set() else self._child.pid

    @property
    def containment(self) -> str | None:
        """The tier that holds the descendants of the process that runs now."""
        return None if self.pid is None or self._child is None else self._child.containment

    async def ready(self, deadline: float) -> Channel:
        """The channel to a process that has said hello, waiting for one until the deadline."""
        while self.channel is None:
            if self.state in {HookState.FAILED, HookState.STOPPING, HookState.STOPPED}:
                raise self._unavailable()
            waiter = self._reactor.waiter()
            self._waiting.append(waiter)
            try:
                await waiter.wait(deadline)
            except TimeoutError:
                message = f"it is {self.state.value}, and was not ready in time{self._last_words()}"
                raise HookTimeoutError(message, hook=self.spec.name) from None
            finally:
                with suppress(ValueError):
                    self._waiting.remove(waiter)
        return self.channel

    def reset(self) -> None:
        """Leave FAILED: start again, with a fresh start budget."""
        self._recent.clear()
        self._failures = 0
        self._permanent = False
        self._wake.set()
        if self.state is HookState.FAILED and not self._stopping:
            self._enter(HookState.BACKOFF)  # from this moment on, a call waits for it

    def restart(self) -> None:
        """End the process that runs; the next one follows. Calls in flight fail."""
        if self._life is not None and not self._life.over:
            self._life.error = HookCrashedError("it was restarted", hook=self.spec.name)
            self._over(self._life, "")
        self.reset()

    def stop(self) -> None:
        """Ask the run to end: no further start, and the process goes down the ladder."""
        self._stopping = True
        if self._life is not None:
            self._life.hurry()
        self._wake.set()

    async def run(self) -> None:
        """Start, serve, restart, until stopped. Cancelled, it still takes its process down."""
        try:
            while not self._stopping:
                if self._permanent or not self._may_start():
                    self._give_up()
                    await self._sleep(None)
                    continue
                try:
                    await self._serve_once()
                except Exception as error:  # noqa: BLE001 - whatever breaks here must not reach the embedder's task group
                    self.last_error = HookCrashedError(f"its supervisor broke: {error!r}", hook=self.spec.name)
                    self._permanent = True
        finally:
            if self.state is not HookState.FAILED or self._stopping:
                self._enter(HookState.STOPPED)
            self._on_state = None
            del self._read, self._hello_timeout  # these and that one lead back to the hook, which has this

    async def _serve_once(self) -> None:
        began = self._reactor.now()
        error = await self._incarnation()
        if self._stopping:
            return
        self._failures = 0 if self._reactor.now() - began >= STABLE else self._failures + 1
        again = self._failures > 1 and str(error) == str(self.last_error)
        told = self._life is not None and self._life.told == str(error)
        self.last_error = error
        (self._log.info if again or told else self._log.warning)("ended", why=str(error))
        if self._permanent or not self._may_start():
            return
        self._enter(HookState.BACKOFF)
        self._wake = anyio.Event()  # what ended the process may have set it, and is no reason to hurry now
        delay = min(BACKOFF_FIRST * 2 ** max(self._failures - 1, 0), BACKOFF_MOST)
        await self._sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads restarts, guards nothing

    def _may_start(self) -> bool:
        policy, now = self.spec.restart, self._reactor.now()
        while self._recent and self._recent[0] <= now - policy.window:
            self._recent.popleft()
        return len(self._recent) < policy.max_starts

    def _give_up(self) -> None:
        self._permanent = True
        if self.state is not HookState.FAILED:
            self._enter(HookState.FAILED)
            self._log.error("failed: it is not started again until it is reset", why=str(self.last_error))

    async def _sleep(self, delay: float | None) -> None:
        """Until somebody wakes this task, or the delay is over."""
        with anyio.move_on_after(delay):
            await self._wake.wait()
        if self._wake.is_set():
            self._wake = anyio.Event()

    async def _incarnation(self) -> HookError:
        """One process, from its start to its end. What comes back says why it ended."""
        self._enter(HookState.STARTING)
        life = self._life = _Life()
        started: tuple[Child, Channel] | None = None
        try:
            with life.starting:
                seen, planned = await self._prepare()
                started = await self._spawn(life, planned)
        except TimeoutError:
            return HookCrashedError("was not started in time", hook=self.spec.name)
        except (SpawnDelayedError, NoThreadError) as error:
            return HookCrashedError(f"cannot be started now: {error}", hook=self.spec.name)
        except ChangedError as error:
            self._recent.append(self._reactor.now())
            return error
        except PicohookError as error:
            self._permanent = True
            return error if isinstance(error, HookError) else HookCrashedError(str(error), hook=self.spec.name)
        except Exception as error:  # noqa: BLE001 - a check of the embedder's, or the system, in ways nobody foresaw
            self._permanent = True
            return HookCrashedError(f"cannot be started: {error!r}", hook=self.spec.name)
        if started is None:
            return life.error or HookCrashedError("it is being stopped", hook=self.spec.name)
        child, channel = started
        try:
            with life.greeting:
                try:
                    await channel.hello(self.spec.modes, self._reactor.now() + self._hello_timeout())
                    await self._look_again(seen)
                    if not life.over:
                        self.channel = channel
                except HookError as error:
                    life.error = error
                    life.over = True
            if not (life.over or self._stopping):
                self._enter(HookState.READY)
                self._log.info("ready", pid=child.pid)
            while not life.over and not self._stopping:
                await self._sleep(None)
        finally:
            self.channel = None
            with anyio.CancelScope(shield=True):
                ended = await self._end(life, child, channel)
        return ended

    async def _prepare(self) -> tuple[Seen | None, Plan]:
        try:
            return await self._aside.do(self._look, self._reactor.now() + START_WAIT)
        except TimeoutError:
            self._recent.append(self._reactor.now())  # or a file system that hangs would be tried for ever
            raise SpawnDelayedError("its files could not be looked at in time") from None

    def _look(self) -> tuple[Seen | None, Plan]:
        """Whether it may run, and what is to be run."""
        seen = None if self._verify is None else self._verify(self.spec)
        return seen, plan(self.spec, os.environ, seen)

    async def _look_again(self, seen: Seen | None) -> None:
        """A script is found by its path, after it was looked at: it may have been another one. Raises `HookError`."""
        if self._verify is None or seen is None:
            return
        try:
            now = await self._aside.do(partial(self._verify, self.spec), self._reactor.now() + START_WAIT)
        except TimeoutError:
            raise HookCrashedError("its files could not be looked at in time", hook=self.spec.name) from None
        except NoThreadError as error:
            raise HookCrashedError(f"its files could not be looked at: {error}", hook=self.spec.name) from None
        except HookError:
            raise
        except Exception as error:  # noqa: BLE001 - a check of the embedder's
            self._permanent = True
            why = str(error) if isinstance(error, PicohookError) else repr(error)
            raise HookCrashedError(why, hook=self.spec.name) from None
        if now != seen:
            raise ChangedError(self.spec.name)

    async def _spawn(self, life: _Life, planned: Plan) -> tuple[Child, Channel]:
        def exited() -> None:
            channel.drain()
            self._over(life, "")

        try:
            child = await Child.start(
                self._reactor,
                self._spawner,
                planned,
                deadline=self._reactor.now() + START_WAIT,
                name=self.spec.name,
                log=self._log,
                on_exit=exited,
            )
        finally:
            planned.close()
        channel = Channel(
            self._reactor,
            child.stdout,
            child.stdin,
            name=self.spec.name,
            log=self._log,
            counters=self.counters,
            read=self._read,
            on_fault=lambda fault: self._over(life, fault),
            max_line=self.spec.max_line_bytes,
            max_in_flight=self.spec.max_in_flight,
            tap=self._tap,
        )
        self._child = child
        self._recent.append(self._reactor.now())
        self.starts += 1
        return child, channel

    def _over(self, life: _Life, fault: str) -> None:
        """This process serves no longer. Called from its channel's and its child's callbacks."""
        if life.over:
            return
        life.over = True
        life.fault = fault
        life.hurry()
        if self._life is life:
            self.channel = None
            self._wake.set()

    async def _end(self, life: _Life, child: Child, channel: Channel) -> HookError:
        grace = self.spec.grace
        polite = not life.over
        if polite:
            self._enter(HookState.STOPPING)
            await channel.flushed(self._reactor.now() + grace)
        elif life.fault in PIPE_ENDS and not child.exited.is_set():
            with anyio.move_on_after(LAST_WORDS):
                await child.exited.wait()
        error = life.error or self._why(life, child, channel)
        channel.close(error)
        if channel.failed_calls and not self.spec.retry:
            life.told = str(error)
        channel.close_stdin()
        if polite:
            await child.stop([(None, grace), (signal.SIGTERM, grace)])
        else:
            await child.stop([(signal.SIGTERM, min(grace, FAULT_GRACE))])
        channel.release()
        # A busy machine may show a process's end later than the end of its output.
        return life.error or self._why(life, child, channel, signalled=True)

    def _why(self, life: _Life, child: Child, channel: Channel, *, signalled: bool = False) -> HookError:
        """Say how it ended. A signal's effect is not its own doing when `signalled`, by the host."""
        if not life.over:
            return HookCrashedError("it is being stopped", hook=self.spec.name)
        ours = signalled and child.exit_code in {-signal.SIGTERM, -signal.SIGKILL}
        by_itself = child.exited.is_set() and (not life.fault or (life.fault in PIPE_ENDS and not ours))
        ended = f"it {child.describe_exit()}" if by_itself else f"{life.fault}, and was killed"
        if by_itself and child.exit_code == 0 and not channel.wrote:
            ended += " and wrote nothing: does it call app.run(), or read its input in a loop?"
        said = last_words(child.stderr_tail, SHOWN_TAIL)
        if said:
            ended += f"; it said: {said}"
        return HookCrashedError(ended, hook=self.spec.name, exit_code=child.exit_code, stderr_tail=child.stderr_tail)

    def _unavailable(self) -> HookError:
        how = "it was given up" if self.state is HookState.FAILED else f"it is {self.state.value}"
        return HookCrashedError(how + self._last_words(), hook=self.spec.name)

    def _last_words(self) -> str:
        return f": {self.last_error}" if self.last_error is not None else ""

    def _enter(self, state: HookState) -> None:
        self.state = state
        if state is not HookState.STARTING:
            self.first_attempt.set()
        for waiter in self._waiting:
            waiter.settle(None)
        if self._on_state is not None:
            self._on_state(state)
