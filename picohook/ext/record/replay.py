"""Asks hooks the questions of a record again, one after another, in the recorded order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...model.spec import HookSpec, WholeModeSpec
from ...wire import words
from .facts import FACTS, FAILED, editable
from .format import HookLine
from .reader import (
    Chain,
    ChainAbandoned,
    ChainEnded,
    EventEmitted,
    HookAnswered,
    HookAsked,
    Reader,
    payload_of,
)
from .recorder import RecordListener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator

    from ...engine.engine import Engine
    from ...model.payloads import Payload
    from ...model.stages import Stage
    from .reader import Entry

Facts = dict[str, Any]


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """One decision, recorded and replayed."""

    line_number: int
    """The line of the record with the question."""
    stage: Stage[Any]
    params: dict[str, Any]
    """The params that were asked about."""
    hook: str
    """The hook that decided; empty for a whole chain."""
    recorded: Facts
    replayed: Facts
    hooks: dict[str, tuple[str, str]]
    """For a chain: each hook whose actions differ, with the recorded action and the replayed one."""
    errors: dict[str, str]
    """The errors of hooks in the replay."""

    def differences(self, ignored: Collection[str] = ()) -> Iterator[str]:
        """The names of the facts that differ."""
        for fact in FACTS:
            if fact not in ignored and not same(self.recorded.get(fact), self.replayed.get(fact)):
                yield fact

    def payloads(self) -> tuple[Any, Any]:
        """The recorded payload and the replayed one."""
        before = editable(self.params)
        return self.recorded.get("payload", before), self.replayed.get("payload", before)


class Replay:
    """Asks a host the questions again. The host has to have its `listener`."""

    def __init__(self) -> None:
        self.unanswered = 0
        """The number of questions that have no answer in the record: the caller was cancelled, or the host was killed."""
        self.listener = RecordListener(self._take)
        self._reader = Reader("the replay")
        self._end: ChainEnded | None = None

    def _take(self, line: bytes) -> None:
        entry = self._reader.take(line)
        if isinstance(entry, ChainEnded):
            self._end = entry

    async def chains(self, entries: Iterable[Entry], host: Engine) -> AsyncIterator[Comparison]:
        """Ask every chain, and tell every event. Yields each chain's comparison."""
        replayed: dict[int, ChainEnded] = {}
        for entry in entries:
            match entry:
                case Chain():
                    replayed[entry.number] = await self._ask(host, entry)
                case ChainEnded(_, chain):
                    again = replayed.pop(chain.number)
                    changed = _changed_actions(_actions(entry), _actions(again))
                    yield Comparison(
                        chain.line_number,
                        chain.stage,
                        chain.asked_about,
                        "",
                        entry.facts,
                        again.facts,
                        changed,
                        _errors(again),
                    )
                case ChainAbandoned():
                    del replayed[entry.chain.number]
                    self.unanswered += 1
                case EventEmitted():
                    await host.emit_and_wait(entry.kind, entry.payload, meta=entry.meta)
        self.unanswered += len(replayed)

    async def of_hook(self, name: str, entries: Iterable[Entry], host: Engine) -> AsyncIterator[Comparison]:
        """Ask and tell this hook alone, each time that the record did. Yields each answer's comparison.

        The host has no other hook.
        """
        replayed: dict[int, tuple[HookAsked, Facts, dict[str, str]]] = {}
        for entry in entries:
            match entry:
                case HookAsked(stands_in=False) if entry.hook == name:
                    end = await self._ask(host, entry.chain, payload_of(entry.chain.stage, entry.params), alone=True)
                    replayed[entry.chain.number] = entry, _only(end, entry), _errors(end)
                case HookAnswered(line, chain) if line.hook == name and chain.number in replayed:
                    ask, *now = replayed.pop(chain.number)
                    yield Comparison(ask.line_number, chain.stage, ask.params, name, entry.facts, now[0], {}, now[1])
                case ChainEnded() | ChainAbandoned() if entry.chain.number in replayed:
                    del replayed[entry.chain.number]
                    self.unanswered += 1
                case EventEmitted() if name in entry.hooks:
                    await host.emit_and_wait(entry.kind, entry.payload, meta=entry.meta)
        self.unanswered += len(replayed)

    async def _ask(
        self, host: Engine, chain: Chain, payload: Payload | None = None, *, alone: bool = False
    ) -> ChainEnded:
        await host.ask(chain.stage.name, payload or chain.payload(), resumed=None if alone else chain.resumed)
        end, self._end = self._end, None
        assert end is not None, "the host has the listener"
        return end


def _only(end: ChainEnded, ask: HookAsked) -> Facts:
    """The facts of the only hook of a chain."""
    (line,) = end.chain.answers
    facts = HookAnswered(line, end.chain, ask.params).facts
    if ask.again and line.action in {words.CONTINUE, words.MODIFY} and "payload" in facts:
        return {"action": FAILED, "failed": "reply"}  # a guard may not change a call about which it is asked again
    return facts


def _errors(end: ChainEnded) -> dict[str, str]:
    return {line.hook: line.error for line in end.chain.answers if line.error is not None}


def _actions(end: ChainEnded) -> dict[str, str]:
    """The last action of each hook of a chain."""
    actions = dict.fromkeys(end.line.skipped, "not asked: its filter")
    if end.chain.stage.approves:
        actions |= dict.fromkeys(end.chain.waiting, "not waited for")
    for line in end.chain.answers:
        facts = HookAnswered(line, end.chain, {}).facts
        actions[line.hook] = f"{FAILED} ({line.failed})" if line.failed else facts["action"]
    return actions


def _changed_actions(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    changed = {name: (before.get(name, "not asked"), after.get(name, "not asked")) for name in before | after}
    return {name: pair for name, pair in changed.items() if pair[0] != pair[1]}


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
