"""`mode = "shadow"`: a hook is asked beside the chain, in a process of its own, and decides nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio

from ...engine.apply_decision import apply
from ...errors import HookError
from ...hooks.base import Hook, Question
from ...hooks.process import ProcessHook
from ...model import failure_policy
from ...model.decisions import CONTINUE, Asked
from ...model.trail import TrailEntry
from ...observe.rate_limit import RateLimit
from ...wire import words
from .served import served

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...hooks.base import HookStatus, HostServices
    from ...model.decisions import Decision
    from ...model.encoded import Encoded
    from ...model.events import Event
    from ...model.spec import HookSpec
    from ...model.stages import Stage

Mode = Literal["decides", "shadow"]

AT_ONCE = 4
"""Questions that are asked at the same time."""
MOST_WAITING, MOST_BYTES = 64, 16 << 20
"""Questions that may wait, and the bytes of their payloads."""
A_SECOND = 50
"""Questions in a second: so a shadow costs a host little, whatever it does."""
PENDING, FAILED, DROPPED = "pending", "failed", "dropped"


def apply_mode(hook: Hook, mode: Mode) -> Hook:
    """Returns the hook, or in its place one that asks it in shadow."""
    return ShadowHook(hook.spec) if mode == "shadow" else hook


class _Waiting(NamedTuple):
    stage: Stage[Any]
    encoded: Encoded[Any]
    entry: TrailEntry
    told: Callable[..., None] | None
    size: int


class ShadowHook(Hook):
    """Asks a hook in a process of its own. What may wait is bounded, and what does not fit is dropped and counted."""

    in_process = False
    takes_bytes = True
    shadow = True

    def __init__(self, spec: HookSpec) -> None:
        super().__init__(spec)
        self._inner = ProcessHook(served(spec, quiet=True))
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._pace = RateLimit(A_SECOND, 1.0)

    @property
    def parts(self) -> None:
        return None

    def open(self, host: HostServices) -> None:
        self._host = host
        self._wake = anyio.Event()
        verify = host.verify
        self._inner.open(
            replace(host, tap=None, notice=None, verify=None if verify is None else lambda _: verify(self.spec))
        )

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(self._work)
            await self._inner.run()
            tasks.cancel_scope.cancel()

    def stop(self) -> None:
        self._inner.stop()

    def notify(self, event: Event) -> None:
        self._inner.notify(event)

    def status(self) -> HookStatus:
        return replace(self._inner.status(), stages=self.metrics.wire())

    async def handle(self, _question: Question[Any]) -> Decision:
        raise HookError("it is in shadow, and decides nothing", hook=self.name)

    def beside(self, stage: Stage[Any], encoded: Encoded[Any], told: Callable[..., None] | None) -> TrailEntry:
        entry = TrailEntry(self.name, "", would=PENDING)
        is_full = len(self._waiting) >= MOST_WAITING or self._bytes > MOST_BYTES
        if is_full or not self._pace.take(self._host.reactor.now()):
            return self._concluded(stage, entry, DROPPED)
        try:
            size = len(encoded.params())  # now: the caller may change the payload later
        except Exception as error:
            entry.error = failure_policy.describe(error)
            return self._concluded(stage, entry, FAILED)
        self._waiting.append(_Waiting(stage, encoded, entry, told, size))
        self._bytes += size
        self._wake.set()
        return entry

    def _concluded(self, stage: Stage[Any], entry: TrailEntry, would: str) -> TrailEntry:
        entry.would = would
        self.metrics.stages[stage.name].would[would] += 1
        return entry

    async def _work(self) -> None:
        await self._inner.started()
        while True:
            while not self._waiting:
                if self._wake.is_set():
                    self._wake = anyio.Event()
                await self._wake.wait()
            one = self._waiting.popleft()
            self._bytes -= one.size
            await self._ask(one)

    async def _ask(self, one: _Waiting) -> None:
        stage, encoded, entry, told, _ = one
        begun = self._host.reactor.now()
        end = begun + self.spec.timeout_at(stage.name, self._host.timeouts, approves=stage.approves)
        decision: Decision = CONTINUE
        left, result = encoded, None
        try:
            decision = await self._inner.handle(Question(stage, encoded, end, end, begun))
            if decision is not CONTINUE:
                decision, left, result, entry.error = apply(stage, self, encoded.deep_copy(), decision, False)
            would = str(decision.action)
            if stage.approves:
                would = "denied" if decision.action == words.DENY else "approved"
            entry.reason = decision.reason
        except Exception as error:  # it can fail in any way, and none may reach the host
            would, entry.error = FAILED, failure_policy.describe(error)
        entry.duration = self._host.reactor.now() - begun
        self._concluded(stage, entry, would)
        if told is not None:
            told(self, encoded, Asked(decision, left, entry, result))
