"""Proof of life: every few minutes, the hooks are asked about a harmful call that they must deny. No tool is called.

A gate that has stopped denying looks like a gate that has nothing to deny. The proof shows the difference.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio

from ...engine.chain import NEVER, Chain
from ...engine.seat import Seat
from ...engine.status import ProofStatus
from ...hooks.base import Hook
from ...model.encoded import Encoded
from ...model.payloads import Meta, ToolCall, deep_copy
from ...model.proof import DENIALS, VERDICTS, Proof, answer_of, verdict_of
from ...model.spec import Canary
from ...model.stages import APPROVE_TOOL, BEFORE_TOOL
from ...wire import words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from ...engine.lifecycle import MountedHooks
    from ...engine.tasks import Service
    from ...hooks.base import Question
    from ...model.decisions import Decision, Outcome
    from ...model.proof import Verdict
    from ...model.spec import ProofOfLife
    from ...model.stages import Stage

SOONEST = 10.0
"""The first proof comes at some time in this many seconds, or in the first interval if that is shorter."""
SPREAD = 0.1
"""The share by which an interval may be shorter or longer, so that many hosts do not ask at the same time."""
STAGES = (BEFORE_TOOL, APPROVE_TOOL)
"""The stages at which a call can be denied."""
PASSES = frozenset({words.CONTINUE, words.MODIFY})
"""The actions after which the next stage is asked."""


class Prover:
    """Asks the hooks of a host about canaries, at intervals, and keeps their answers.

    `notice` is called with each proof.
    """

    def __init__(
        self, mounted_hooks: MountedHooks, settings: ProofOfLife | None, notice: Callable[[Proof], None]
    ) -> None:
        self._mounted = mounted_hooks
        self._settings = settings
        self._notice = notice
        self._running = False
        self._service: Service[None] | None = None
        self._last: tuple[Proof, ...] = ()
        self._counts: Counter[Verdict] = Counter()
        self._denied = 0.0
        """The time when all canaries were last denied, in seconds since the epoch."""
        self._denied_at = 0.0
        """The same on a clock that is never set back."""
        self._alarmed: set[tuple[str, str]] = set()
        """The gates and tools of the canaries that were not denied when they were last asked about."""

    def begin(self) -> None:
        """Begin to give proofs, if the settings ask for them. Call this when all hooks have been started."""
        self._running = True
        self._begin()

    def change(self, settings: ProofOfLife | None) -> None:
        """Take other settings. The next proof comes at a time that they set."""
        if settings != self._settings:
            self._settings = settings
            self._begin()

    def _begin(self) -> None:
        if self._service is not None:
            self._service.cancel()
            self._service = None
        if self._running and self._settings is not None:
            self._service = self._mounted.begin(self._run)

    async def _run(self) -> None:
        """Give proofs, with an interval between the end of each and the next, however long they take."""
        assert self._settings is not None
        every = self._settings.every
        wait = random.random() * min(every, SOONEST)  # noqa: S311 - not a secret
        while True:
            await anyio.sleep(wait)
            try:
                await self.prove()
            except Exception as error:  # the next one may succeed, and this one is missed in the status
                self._mounted.log.error("there is no proof of life", why=repr(error))
            wait = every * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311

    async def prove(self) -> tuple[Proof, ...]:
        """Ask about each canary once, one after another. Returns a proof of each."""
        proofs = []
        for gate, canary in tuple(self._canaries()):
            proof = await _prove(self._mounted, canary, gate)
            self._counts[proof.verdict] += 1
            proofs.append(proof)
            self._log(proof)
            self._notice(proof)
        self._last = tuple(proofs)
        if all(proof.verdict == "denied" for proof in proofs):
            self._denied, self._denied_at = time.time(), time.monotonic()
        return self._last

    def _log(self, proof: Proof) -> None:
        log, canary = self._mounted.log, (proof.gate, proof.call.tool)
        about = {"hook": proof.gate or proof.hook, "tool": proof.call.tool}
        if proof.verdict == "not_denied":
            log.error("a harmful call was not denied", **about, why=proof.why)
        elif proof.verdict == "failed":
            log.error("a harmful call was denied only because a hook failed", **about, why=proof.why)
        elif canary in self._alarmed:
            log.info("a harmful call is denied again", **about)
        if proof.verdict == "denied":
            self._alarmed.discard(canary)
        else:
            self._alarmed.add(canary)

    def _canaries(self) -> Iterator[tuple[str, Canary]]:
        """The calls to ask about, each with the hook that is asked alone; empty for the whole chain."""
        gates = [(hook.name, hook.spec.canary) for hook in self._mounted.hooks]
        own = [(name, canary) for name, canary in gates if canary is not None]
        canaries = self._settings.canaries if self._settings else ()
        yield from own
        yield from (("", canary) for canary in canaries or (() if own else (_harmful(),)))

    def status(self) -> ProofStatus | None:
        """The status of the proofs; None for a host that gives none."""
        if self._settings is None and not self._last:
            return None
        age = round(time.monotonic() - self._denied_at, 3) if self._denied else None
        return ProofStatus(
            every=self._settings.every if self._settings else None,
            verdict=max((proof.verdict for proof in self._last), key=VERDICTS.index, default=""),
            last_denial=round(self._denied, 3),
            last_denial_age=age,
            proofs={verdict: self._counts[verdict] for verdict in VERDICTS},
            alarms=tuple(proof.wire() for proof in self._last if proof.verdict != "denied"),
        )


def _harmful() -> Canary:
    """The call that hooks are asked about if the configuration names none."""
    return Canary(tool="bash", arguments={"command": "rm -rf /"})


async def _prove(mounted_hooks: MountedHooks, canary: Canary, gate: str) -> Proof:
    """Ask one gate, or all hooks that need no person, about a canary."""
    meta = Meta(source=words.PROOF_OF_LIFE)
    given = call = ToolCall(tool=canary.tool, arguments=deep_copy(canary.arguments), meta=meta)
    verdict: Verdict = "not_denied"
    hook, answers, trails = "", [], []
    for stage in STAGES:
        outcome = await _ask(mounted_hooks, stage, call, gate)
        if outcome is None:
            continue
        trails.append(outcome.stage_trail)
        answers.append(f"{stage.name}: {answer_of(outcome, gate)}")
        verdict = min(verdict, verdict_of(outcome), key=VERDICTS.index)
        if outcome.action in DENIALS:
            hook = outcome.hook
        if verdict == "denied" or (not gate and outcome.action not in PASSES):
            break
        call = outcome.payload
    if not trails:
        answers.append("it is not asked about tool calls" if gate else "no hook is asked about tool calls")
    return Proof(given, gate, verdict, hook, tuple(answers), tuple(trails))


async def _ask(
    mounted_hooks: MountedHooks, stage: Stage[ToolCall], call: ToolCall, gate: str
) -> Outcome[ToolCall] | None:
    """The outcome of one stage; None if no hook is asked there. Nothing is counted as an answer to an agent."""
    clock = mounted_hooks.require_here().now
    generation = mounted_hooks.generations[stage.name]
    seats = tuple(
        Seat(Uncounted(seat.hook), seat.timeout, seat.filter)
        for seat in generation.seats
        if (seat.name == gate if gate else not seat.waits_for_person)
    )
    if not seats:
        return None
    generation.running += 1
    try:
        end = NEVER if stage.approves else clock() + generation.budget
        return await Chain(stage, Encoded(call), clock, end).run(seats)
    finally:
        generation.leave()


class Uncounted(Hook):
    """Asks a hook as usual, but counts its answers and failures separately."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(hook.spec)
        self.in_process = hook.in_process
        self.takes_bytes = hook.takes_bytes
        self._hook = hook

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        return self._hook.handle(question)
