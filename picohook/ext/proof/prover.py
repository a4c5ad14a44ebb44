"""Proof of life: every few minutes, the hooks are asked about a harmful call that they must deny. No tool is called.

A gate that has stopped denying looks like a gate that has nothing to deny. The proof shows the difference.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio
from pydantic import Field

from ...config.table import Table
from ...engine.chain import NEVER, Chain
from ...engine.part import Part
from ...engine.seat import Seat
from ...hooks.base import Hook
from ...model.encoded import Encoded
from ...model.payloads import Meta, ToolCall, deep_copy
from ...model.proof import DENIALS, VERDICTS, Proof
from ...model.spec import Canary, Seconds
from ...model.stages import APPROVE_TOOL, BEFORE_TOOL
from ...wire import words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence
    from typing import Self

    from ...engine.arrangement import Service
    from ...hooks.base import Question
    from ...host import Host
    from ...model.decisions import Decision, Outcome
    from ...model.proof import Verdict
    from ...model.stages import Stage

SOONEST = 10.0
"""The first proof comes at some time in this many seconds, or in the first interval if that is shorter."""
SPREAD = 0.1
"""The share by which an interval may be shorter or longer, so that many hosts do not ask at the same time."""
STAGES = (BEFORE_TOOL, APPROVE_TOOL)
"""The stages at which a call can be denied."""
PASSES = frozenset({words.CONTINUE, words.MODIFY})
"""The actions after which the next stage is asked."""


class ProofOfLife(Table):
    """Harmful calls that hooks must deny, and how often a running host asks about them."""

    every: Seconds = Field(default=300.0, description="Seconds between two proofs.")
    canaries: tuple[Canary, ...] = Field(
        default=(),
        description="Tool calls that the hooks together must deny. Each hook must deny its own canary in any case.",
    )

    @classmethod
    def part(cls, tables: Sequence[Self]) -> Prover:
        return Prover(cls.joined(tables))

    @classmethod
    def joined(cls, tables: Sequence[Self]) -> Self | None:
        """The proofs of all tables: all their canaries, at the shortest interval. None without a table."""
        if len(tables) <= 1:
            return tables[0] if tables else None
        canaries = tuple(canary for one in tables for canary in one.canaries)
        return cls(every=min(one.every for one in tables), canaries=canaries)


@dataclass(frozen=True, slots=True)
class ProofStatus:
    """The results of a host's proofs of life."""

    every: float | None
    """Seconds between two proofs; None if they are given only when they are asked for."""
    verdict: Verdict | Literal[""]
    """The worst verdict of the last proof; empty before the first."""
    last_denial: float
    """The time when every harmful call was last denied, in seconds since the epoch; 0 if that never happened."""
    last_denial_age: float | None
    """The seconds since the last denial."""
    proofs: Mapping[str, int]
    """The number of harmful calls that hooks were asked about, by verdict."""
    alarms: tuple[Mapping[str, Any], ...]
    """The calls of the last proof that were not denied, in the JSON form of `Proof`."""


def given(settings: ProofOfLife) -> ProofOfLife:
    """`Host(proof_of_life=ProofOfLife(...))`: besides those of the configuration."""
    return settings


class Prover(Part):
    """Asks the hooks of a host about canaries, at intervals, and keeps what they answered."""

    def __init__(self, settings: ProofOfLife | None) -> None:
        self._settings = settings
        self._host: Host | None = None
        self._running = False
        self._service: Service[None] | None = None
        self._last: tuple[Proof, ...] = ()
        self._counts: Counter[Verdict] = Counter()
        self._denied = 0.0
        """When all canaries were last denied, in seconds since the epoch."""
        self._denied_at = 0.0
        """The same on a clock that is never set back."""
        self._alarmed: set[tuple[str, str]] = set()
        """The gates and tools of the canaries that were not denied when they were last asked about."""

    @property
    def host(self) -> Host:
        """The host, which is open."""
        assert self._host is not None
        return self._host

    async def open(self, host: Host) -> None:
        self._host = host

    async def aclose(self) -> None:
        self._host = None  # so that the host is freed without the garbage collector

    async def started(self) -> None:
        self._running = True
        self._begin()

    def follow(self, tables: Sequence[ProofOfLife]) -> None:
        settings = type(tables[0]).joined(tables) if tables else None
        if settings != self._settings:
            self._settings = settings
            self._begin()

    def _begin(self) -> None:
        if self._service is not None:
            self._service.cancel()
            self._service = None
        if self._running and self._settings is not None:
            self._service = self.host.begin_task(self._run)

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
                self.host.log.error("there is no proof of life", why=repr(error))
            wait = every * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311

    async def prove(self) -> tuple[Proof, ...]:
        """Ask about each canary once, one after another. Returns a proof of each."""
        proofs = []
        for gate, canary in tuple(self._canaries()):
            proof = await _prove(self.host, canary, gate)
            self._counts[proof.verdict] += 1
            proofs.append(proof)
            self._log(proof)
            self.host.proved(proof)
        self._last = tuple(proofs)
        if all(proof.verdict == "denied" for proof in proofs):
            self._denied, self._denied_at = time.time(), time.monotonic()
        return self._last

    def _log(self, proof: Proof) -> None:
        log, canary = self.host.log, (proof.gate, proof.call.tool)
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
        gates = [(hook.name, hook.spec.canary) for hook in self.host.hooks]
        own = [(name, canary) for name, canary in gates if canary is not None]
        canaries = self._settings.canaries if self._settings else ()
        if not own and not canaries:
            canaries = (Canary(tool="bash", arguments={"command": "rm -rf /"}),)
        yield from own
        yield from (("", canary) for canary in canaries)

    def status(self) -> Mapping[str, Any]:
        if self._settings is None and not self._last:
            return {"proof_of_life": None}
        age = round(time.monotonic() - self._denied_at, 3) if self._denied else None
        shown = ProofStatus(
            every=self._settings.every if self._settings else None,
            verdict=max((proof.verdict for proof in self._last), key=VERDICTS.index, default=""),
            last_denial=round(self._denied, 3),
            last_denial_age=age,
            proofs={verdict: self._counts[verdict] for verdict in VERDICTS},
            alarms=tuple(proof.wire() for proof in self._last if proof.verdict != "denied"),
        )
        return {"proof_of_life": shown}


async def _prove(host: Host, canary: Canary, gate: str) -> Proof:
    """Ask one gate, or all hooks that need no person, about a canary."""
    meta = Meta(source=words.PROOF_OF_LIFE)
    given = call = ToolCall(tool=canary.tool, arguments=deep_copy(canary.arguments), meta=meta)
    verdict: Verdict = "not_denied"
    hook, answers, trails = "", [], []
    for stage in STAGES:
        outcome = await _ask(host, stage, call, gate)
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


async def _ask(host: Host, stage: Stage[ToolCall], call: ToolCall, gate: str) -> Outcome[ToolCall] | None:
    """The outcome of one stage; None if no hook is asked there. Nothing is counted as an answer to an agent."""
    mounted_hooks = host._mounted  # noqa: SLF001 - its answers are not counted, so no other door does
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


def verdict_of(outcome: Outcome[ToolCall]) -> Verdict:
    """The verdict of the stage at which a chain ended."""
    if outcome.action not in DENIALS:
        return "not_denied"
    by = [entry for entry in outcome.trail if entry.hook == outcome.hook]
    return "denied" if by and by[-1].failure is None else "failed"


def answer_of(outcome: Outcome[ToolCall], gate: str) -> str:
    """Returns the answer at a stage of the gate, or without a gate of the whole chain, in words."""
    entries = [entry for entry in outcome.trail if not entry.skipped]
    if not entries:
        return "its filter keeps it from being asked" if gate else "the filters of all hooks keep them from being asked"
    failed = [f"{'it' if gate else f'hook {entry.hook}'} failed, {entry.error}" for entry in entries if entry.failure]
    action: str = outcome.action
    if outcome.approved is not None:
        action = "approved" if outcome.approved else "denied"
    return "; ".join(failed) if gate and failed else "; ".join([action, *failed])
