"""Asks hooks about past calls again, one after another, in their order, and compares the decisions."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...model.spec import HookSpec, WholeModeSpec
from ...wire import words
from .facts import FACTS, FAILED, editable, facts_of_answer, facts_of_outcome
from .format import HookLine
from .reader import Chain, ChainAbandoned, ChainEnded, EventEmitted, HookAnswered, HookAsked, HookInShadow, payload_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator

    from ...engine.engine import Engine
    from ...model.decisions import Outcome
    from ...model.payloads import ToolCall
    from ...model.stages import Stage
    from ...model.trail import TrailEntry
    from .format import WouldLine
    from .reader import Entry

Facts = dict[str, Any]

NEWLY_DENIED, NEWLY_ALLOWED, OTHERWISE = "newly denied", "newly allowed", "changed otherwise"
_ALLOWED = frozenset({words.CONTINUE, words.MODIFY, words.RESPOND, "approved"})
_MOST_WAITING = 256
"""Newly denied calls that wait for what became of them then."""


@dataclass(slots=True)
class RecordedHook:
    """A hook of a record."""

    line: HookLine | None = None
    """The last line of the record."""
    named: set[str] = field(default_factory=set)
    """The stages that its settings name."""
    stages: set[str] = field(default_factory=set)
    """The stages at which it was asked."""
    told: bool = False
    """Whether it was told of events."""

    def stand_in(self, name: str, command: Collection[str]) -> HookSpec:
        """The settings of a program that answers in its place."""
        settings = {} if self.line is None else self.line.settings
        kind = WholeModeSpec if self.line is not None and self.line.whole_modes else HookSpec
        settings = settings | {"stages": sorted(self.stages if kind is HookSpec else self.named)}
        # It runs as on the command line that names it. If it does not start, the replay ends.
        runs = {"name": name, "command": list(command), "inherit_env": True, "required": True}
        return kind.model_validate(settings | runs | {"observe": ["*"] if self.told else []})


def recorded_hooks(entries: Iterable[Entry]) -> dict[str, RecordedHook]:
    """The hooks of a record, by name. Reads the whole record, so a damaged one is refused before anything runs."""
    hooks: defaultdict[str, RecordedHook] = defaultdict(RecordedHook)
    for entry in entries:
        match entry:
            case HookLine():
                hooks[entry.hook].line = entry
                hooks[entry.hook].named.update(entry.settings.get("stages", ()))
            case HookAsked(stands_in=False):
                hooks[entry.hook].stages.add(entry.chain.stage.name)
            case EventEmitted():
                for name in entry.hooks:
                    hooks[name].told = True
    return dict(hooks)


@dataclass(slots=True)
class Comparison:
    """One decision, then and now."""

    then: Chain
    now: list[Outcome[Any]]
    """The outcome; for a call of a transcript, those of before_tool and of approve_tool."""
    params: dict[str, Any]
    """The params that were asked about."""
    line_number: int
    """The line of the record with the question."""
    hook: str
    """The hook that decided; empty for a whole chain."""
    recorded: Facts
    replayed: Facts
    succeeded: bool | None = None
    """Whether the call was made then and succeeded; None if this is not known."""
    line: WouldLine | None = None
    """The answer of a hook in shadow, if it is compared."""

    @property
    def stage(self) -> Stage[Any]:
        """The stage."""
        return self.then.stage

    def differences(self, ignored: Collection[str] = ()) -> Iterator[str]:
        """The names of the facts that differ."""
        for fact in FACTS:
            if fact not in ignored and not same(self.recorded.get(fact), self.replayed.get(fact)):
                yield fact

    def payloads(self) -> tuple[Any, Any]:
        """The recorded payload and the replayed one."""
        before = editable(self.params)
        return self.recorded.get("payload", before), self.replayed.get("payload", before)

    @property
    def kind(self) -> str:
        """How a decision that changed has changed."""
        before, after = (facts["action"] in _ALLOWED for facts in (self.recorded, self.replayed))
        if self.replayed["action"] in {FAILED, words.PAUSE} or before is after:
            return OTHERWISE  # after a pause, a person decides
        return NEWLY_DENIED if before else NEWLY_ALLOWED

    @property
    def errors(self) -> dict[str, str]:
        """The errors of hooks that failed now."""
        if self.line is not None and self.line.error is not None:
            return {self.line.hook: self.line.error}
        return {entry.hook: entry.error for entry in self.trail if entry.error is not None}

    @property
    def trail(self) -> list[TrailEntry]:
        """What each hook did now."""
        return [entry for outcome in self.now for entry in outcome.trail]

    @property
    def has_failed(self) -> bool:
        """Whether a hook failed now that did not fail then, so that this says nothing of its decisions."""
        if self.line is not None:
            return self.line.failed is not None
        failed = {line.hook for line in self.then.answers if line.failed}
        return any(entry.failure and entry.hook not in failed for entry in self.trail)

    @property
    def call(self) -> str:
        """What the stages that ask about one call have in common."""
        return self.params.get("tool_call_id") or json.dumps([self.params.get("tool"), self.params.get("arguments")])


class Replay:
    """Asks a host the questions again."""

    def __init__(self) -> None:
        self.unanswered = 0
        """The number of questions that have no answer in the record: the caller was cancelled, or the host was killed."""
        self.succeeded = 0
        """The number of calls that were made then and succeeded."""
        self._waiting: dict[str, list[Comparison]] = {}
        """Newly denied calls until their results are read."""

    async def chains(self, entries: Iterable[Entry], host: Engine) -> AsyncIterator[Comparison]:
        """Ask every chain, and tell every event. Yields each chain's comparison, of a denied call when its result is read."""
        replayed: dict[int, tuple[list[Outcome[Any]], Facts]] = {}
        for entry in entries:
            match entry:
                case Chain():
                    for known in self._returned(entry):
                        yield known
                    replayed[entry.number] = await _ask(host, entry)
                case ChainEnded(_, chain):
                    now, facts = replayed.pop(chain.number)
                    one = Comparison(chain, now, chain.asked_about, chain.line_number, "", entry.facts, facts)
                    if chain.agent or one.kind != NEWLY_DENIED:
                        one.succeeded = chain.succeeded
                        self.succeeded += chain.succeeded is True
                        yield one
                        continue
                    self._waiting.setdefault(one.call, []).append(one)
                    if len(self._waiting) > _MOST_WAITING:
                        for known in self._waiting.pop(next(iter(self._waiting))):
                            yield known
                case ChainAbandoned():
                    del replayed[entry.chain.number]
                    self.unanswered += 1
                case EventEmitted():
                    await host.emit_and_wait(entry.kind, entry.payload, meta=entry.meta)
        self.unanswered += len(replayed)
        for several in self._waiting.values():
            for known in several:
                yield known
        self._waiting = {}

    async def shadows(self, entries: Iterable[Entry], _host: object = None) -> AsyncIterator[Comparison]:
        """Compare what hooks in shadow would have decided with what was decided. No hook is asked."""
        for entry in entries:
            found: list[Comparison] = []
            match entry:
                case Chain():
                    found = self._returned(entry)
                case ChainEnded(_, chain):
                    found = [one for line in chain.shadows for one in self._in_shadow(line, entry)]
                case HookInShadow(line, end):
                    found = [*self._in_shadow(line, end)]
            for one in found:
                yield one
        for several in self._waiting.values():
            for known in several:
                yield known

    def _in_shadow(self, line: WouldLine, end: ChainEnded) -> Iterator[Comparison]:
        """Yields the comparison, unless it waits for the call's result."""
        chain = end.chain
        facts = facts_of_answer(line, approves=chain.stage.approves)
        recorded = end.facts
        if recorded["action"] not in _ALLOWED and (line.failed or facts["action"] in _ALLOWED):
            facts = recorded  # a hook beside those that denied changes nothing
        one = Comparison(chain, [], chain.asked_about, chain.line_number, line.hook, recorded, facts, line=line)
        if one.kind != NEWLY_DENIED:
            yield one
            return
        self._waiting.setdefault(one.call, []).append(one)
        if len(self._waiting) > _MOST_WAITING:
            yield from self._waiting.pop(next(iter(self._waiting)))

    def _returned(self, chain: Chain) -> list[Comparison]:
        """Returns the denied calls whose result this chain is about."""
        result = chain.asked_about.get("result")
        if chain.stage.name != "after_tool" or not isinstance(result, dict):
            return []
        good = not result.get("is_error")
        self.succeeded += good
        if not self._waiting:
            return []
        key = Comparison(chain, [], chain.asked_about, 0, "", {}, {}).call
        found = self._waiting.pop(key, [])
        for one in found:
            one.succeeded = good
        return found

    async def of_hook(self, name: str, entries: Iterable[Entry], host: Engine) -> AsyncIterator[Comparison]:
        """Ask and tell this hook alone, each time that the record did. Yields each answer's comparison.

        The host has no other hook.
        """
        replayed: dict[int, tuple[HookAsked, Outcome[Any], Facts]] = {}
        for entry in entries:
            match entry:
                case HookAsked(stands_in=False) if entry.hook == name:
                    payload = payload_of(entry.chain.stage, entry.params)
                    outcome = await host.ask(entry.chain.stage.name, payload)
                    replayed[entry.chain.number] = entry, outcome, facts_of_outcome(outcome, payload)
                case HookAnswered(line, chain) if line.hook == name and chain.number in replayed:
                    ask, outcome, facts = replayed.pop(chain.number)
                    facts = _only(facts, outcome, ask)
                    yield Comparison(chain, [outcome], ask.params, ask.line_number, name, entry.facts, facts)
                case ChainEnded() | ChainAbandoned() if entry.chain.number in replayed:
                    del replayed[entry.chain.number]
                    self.unanswered += 1
                case EventEmitted() if name in entry.hooks:
                    await host.emit_and_wait(entry.kind, entry.payload, meta=entry.meta)
        self.unanswered += len(replayed)


async def _ask(host: Engine, chain: Chain) -> tuple[list[Outcome[Any]], Facts]:
    """Ask a chain. A transcript says no more than whether a call was allowed, and for an agent two stages decide about it."""
    payload = chain.payload
    outcomes = [await host.ask(chain.stage.name, payload, resumed=chain.resumed)]
    facts = facts_of_outcome(outcomes[0], payload)
    if chain.agent and facts["action"] in _ALLOWED:
        facts["action"] = words.CONTINUE
        if outcomes[0].action != words.RESPOND and host.asked_at("approve_tool"):
            call: ToolCall = outcomes[0].payload
            outcomes.append(await host.approve_tool(call))
            approved = facts_of_outcome(outcomes[1], call)
            facts |= {**approved, "action": words.CONTINUE if approved["action"] == "approved" else "denied"}
    return outcomes, facts


def _only(facts: Facts, outcome: Outcome[Any], ask: HookAsked) -> Facts:
    """The facts of the only hook of a chain."""
    (entry,) = outcome.trail
    if entry.failure is not None:
        return {"action": FAILED, "failed": entry.failure}
    if ask.again and "payload" in facts and outcome.action in {words.CONTINUE, words.MODIFY}:
        return {"action": FAILED, "failed": "reply"}  # a guard may not change a call about which it is asked again
    reason = {"reason": entry.reason} if entry.reason else {}
    notes = {"notes": facts["notes"][0]} if "notes" in facts else {}
    return {**facts, **reason, **notes}


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: numbers exactly, and `true` is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def choose_hook(hooks: dict[str, RecordedHook], name: str | None) -> str:
    """The name of the only hook that was asked, or `name`. Raises `PicohookError`."""
    names = sorted(hook for hook, recorded in hooks.items() if recorded.stages)
    if not names:
        raise PicohookError("no hook was asked anything in this record")
    if name is None and len(names) > 1:
        raise PicohookError(f"the record has several hooks: name one with --hook ({', '.join(names)})")
    if name is not None and name not in names:
        raise PicohookError(f"no hook {name!r} was asked in this record (there are: {', '.join(names)})")
    return name or names[0]
