"""`mode = "shadow"`: a hook is asked beside the chain, in a process of its own, and decides nothing.

The process is a hook on the SDK. Its handlers ask the hook on a host of that process. In a back-test, Python functions run so.
"""

import asyncio
import base64
import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from ...engine.arrangement import Service
from ...engine.chain import NEVER, Chain
from ...engine.seat import Seat
from ...errors import EncodeError, HookError
from ...hooks.base import Hook, HookStatus, HostServices
from ...hooks.process import ProcessHook
from ...host import Host
from ...model.encoded import CHANGED, Encoded
from ...model.events import Event
from ...model.spec import HookSpec
from ...model.stages import STAGES, Stage
from ...model.trail import TrailEntry
from ...observe.rate_limit import RateLimit
from ...sdk.app import HookApp
from ...sdk.base import Call
from ...wire import words
from ..nats.answers import answer_of
from ..vendors import dialogue

Mode = Literal["decides", "shadow"]

MOST_OPEN, MOST_BYTES = 64, 16 << 20
"""Questions that are asked at the same time, and the bytes of their payloads."""
A_SECOND = 50
"""Questions in a second: so a shadow costs a host little, whatever it does."""
REST = 1.0
"""Seconds after a failure in which it is asked nothing."""
PATIENCE = 60.0
"""Seconds in which its process has to start, since it leaves the processor to others."""
PENDING, FAILED, DROPPED = "pending", "failed", "dropped"
_SPEC = "PICOHOOK_SERVED"
_NICENESS = 10
_START = f"import os; os.nice({{}}); from {__name__} import main; main()"
_OUTSIDE: dict[str, Any] = {
    "filter": None,
    "after": (),
    "fallback": None,
    "guard": False,
    "required": False,
    "retry": 0,
}
"""Settings that the host of the process leaves to the host that starts it."""
_ITS_OWN = ("name", "stages", "observe", "events", "respond", "may_edit", "grace", "dir")


def apply_mode(hook: Hook, mode: Mode) -> Hook:
    """Returns the hook, or in its place one that asks it in shadow."""
    return ShadowHook(hook.spec) if mode == "shadow" else hook


class ShadowHook(Hook):
    """Asks a hook in a process of its own. What is open at a time is bounded, and what does not fit is dropped and counted."""

    in_process = False
    takes_bytes = True
    shadow = True

    def __init__(self, spec: HookSpec) -> None:
        super().__init__(spec)
        own = {name: getattr(spec, name) for name in _ITS_OWN}
        process = served(spec.model_copy(update={"mode": "decides"}), quiet=True)
        self._inner = ProcessHook(HookSpec.model_construct(**own, **process, hello_timeout=PATIENCE))
        self._open: set[Service[None]] = set()
        """The questions that have no answer yet."""
        self._bytes = 0
        self._rests_until = 0.0
        self._pace = RateLimit(A_SECOND, 1.0)
        self._dropped = TrailEntry(self.name, "", would=DROPPED)
        """One entry for all of them, because most calls have it where there are many."""

    @property
    def parts(self) -> None:
        return None

    def open(self, host: HostServices) -> None:
        self._host = host
        verify = host.verify
        self._inner.open(
            replace(host, tap=None, notice=None, verify=None if verify is None else lambda _: verify(self.spec))
        )

    async def run(self) -> None:
        try:
            await self._inner.run()
        finally:
            for question in self._open:
                question.cancel()

    def stop(self) -> None:
        self._inner.stop()

    def notify(self, event: Event) -> None:
        self._inner.notify(event)

    def status(self) -> HookStatus:
        return replace(self._inner.status(), stages=self.metrics.wire())

    def beside(self, stage: Stage[Any], encoded: Encoded[Any], told: Callable[..., None] | None) -> TrailEntry:
        now, is_full = self._host.reactor.now(), len(self._open) >= MOST_OPEN or self._bytes > MOST_BYTES
        if is_full or now < self._rests_until or not self._pace.take(now):
            self.metrics.stages[stage.name].would[DROPPED] += 1
            return self._dropped
        entry = TrailEntry(self.name, "", would=PENDING)
        try:
            size = len(encoded.params())  # now: the caller may change the payload later
        except EncodeError as error:
            entry.error = str(error)
            return self._concluded(stage, entry, FAILED)
        question = Service(partial(self._ask, stage, encoded, entry, told), partial(self._over, size))
        self._open.add(question)
        self._bytes += size
        question.start(self._host.reactor)
        return entry

    def _over(self, size: int, question: Service[None]) -> None:
        self._open.remove(question)
        self._bytes -= size

    def _concluded(self, stage: Stage[Any], entry: TrailEntry, would: str) -> TrailEntry:
        entry.would = would
        self.metrics.stages[stage.name].would[would] += 1
        return entry

    async def _ask(
        self, stage: Stage[Any], encoded: Encoded[Any], entry: TrailEntry, told: Callable[..., None] | None
    ) -> None:
        await self._inner.started()
        seat = Seat(self._inner, self.spec.timeout_at(stage.name, self._host.timeouts, approves=stage.approves))
        asked = await Chain(stage, encoded, self._host.reactor.now, NEVER).ask(seat, NEVER)
        made = asked.entry
        entry.reason, entry.error, entry.duration = made.reason, made.error, made.duration
        would = str(asked.decision.action)
        if asked.encoded is not encoded and not encoded.intact:
            made.failure, entry.error = "changed", CHANGED  # an edit of another payload than the one that it saw
        if made.failure is not None:
            would = FAILED
            self._rests_until = self._host.reactor.now() + REST
        elif stage.approves:
            would = "denied" if would == words.DENY else "approved"
        self._concluded(stage, entry, would)
        if told is not None:
            told(self, encoded, replace(asked, entry=replace(entry, failure=made.failure)))


def served(spec: HookSpec, *, quiet: bool = False) -> dict[str, Any]:
    """Returns the settings of a process that asks this hook. A `quiet` one leaves the processor to others, and logs nothing."""
    inside = base64.b64encode(pickle.dumps((spec.model_copy(update=_OUTSIDE), quiet))).decode()
    # -P: no file of the working directory takes the place of a module. To import picohook is most of the work of a start.
    command = (sys.executable, "-P", "-c", _START.format(_NICENESS if quiet else 0))
    return {"python": None, "command": command, "inherit_env": True, "env": {_SPEC: inside}}


class _Served(HookApp):
    """Asks one hook. It is started once standard output is reserved for the protocol, since its module may print."""

    def __init__(self, spec: HookSpec) -> None:
        super().__init__(spec.name)
        self._spec = spec

    def serve(self, stdin: int, stdout: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # it ends a function that hangs, too
        with Host.blocking([self._spec]) as host:

            def asked(call: Call) -> dict[str, Any]:
                """Returns the hook's answer. Raises `HookError` if it failed."""
                stage = STAGES[call.stage]
                payload = stage.payload.model_validate(call.params)
                outcome = host.ask(stage.name, payload)
                (entry,) = outcome.trail
                if entry.failure is not None:
                    raise HookError(f"{entry.failure}: {entry.error}")
                return answer_of(stage, payload, outcome)

            async def answer(call: Call) -> dict[str, Any]:
                return await asyncio.to_thread(asked, call)

            for stage in self._spec.asked_at:
                getattr(self, stage)(answer)
            self.on_event(lambda event: host.emit(event.kind, event.payload))
            super().serve(stdin, stdout)


def main() -> None:
    """Serve the host that started this process."""
    spec, quiet = pickle.loads(base64.b64decode(os.environ.pop(_SPEC)))  # noqa: S301 - from the process that started this one
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    dialogue.CURRENT.set(dialogue.Dialogue("", asks=True, cwd=os.getcwd()))  # what would be asked is no denial
    _Served(spec).run()
