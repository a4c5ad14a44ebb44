"""Asking hooks again what a record says was asked, one question after another, in the order in which they were asked."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..model.spec import HookSpec, WholeModeSpec
from ..wire import words
from .form import FACTS, FAILED, HookLine, editable
from .reader import Abandoned, Answer, Ask, Begun, End, Reader, Told, payload_of
from .recorder import Scribe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator

    from ..host import Host
    from ..model.payloads import Payload
    from ..model.stages import Stage
    from .reader import Chain, Entry

Facts = dict[str, Any]


@dataclass(slots=True)
class Known:
    """A hook, as far as a record tells."""

    line: HookLine | None = None
    """What it was last."""
    named: set[str] = field(default_factory=set)
    """The stages that its settings named."""
    stages: set[str] = field(default_factory=set)
    """Where it was asked."""
    told: bool = False
    """Whether it was told of events."""

    def stand_in(self, name: str, command: Collection[str]) -> HookSpec:
        """The settings of a program that is to answer what this hook was asked."""
        settings = {} if self.line is None else self.line.settings
        kind = WholeModeSpec if self.line is not None and self.line.whole_modes else HookSpec
        settings = settings | {"stages": sorted(self.stages if kind is HookSpec else self.named)}
        # What somebody names on a command line runs as it would there, and tells nothing when it does not start.
        place = {"name": name, "command": list(command), "inherit_env": True, "required": True}
        return kind.model_validate(settings | place | {"observe": ["*"] if self.told else []})


def survey(entries: Iterable[Entry]) -> dict[str, Known]:
    """The hooks of a record, by name. It reads the record to its end, so that nothing is run that is damaged."""
    hooks: defaultdict[str, Known] = defaultdict(Known)
    for entry in entries:
        match entry:
            case HookLine():
                hooks[entry.hook].line = entry
                hooks[entry.hook].named.update(entry.settings.get("stages", ()))
            case Ask(stands_in=False):
                hooks[entry.hook].stages.add(entry.chain.stage.name)
            case Told():
                for name in entry.hooks:
                    hooks[name].told = True
    return dict(hooks)


@dataclass(frozen=True, slots=True)
class Compared:
    """One decision, as it was and as it is now."""

    line: int
    """Where it was asked for."""
    stage: Stage[Any]
    params: dict[str, Any]
    """What was asked about."""
    hook: str
    """The hook that decided; empty for a whole chain."""
    recorded: Facts
    replayed: Facts
    hooks: dict[str, tuple[str, str]]
    """Of a chain, the hooks whose actions differ: what they were, and what they are."""
    errors: dict[str, str]
    """What went wrong in hooks now."""

    def differences(self, ignored: Collection[str] = ()) -> Iterator[str]:
        """The facts that differ."""
        for fact in FACTS:
            if fact not in ignored and not same(self.recorded.get(fact), self.replayed.get(fact)):
                yield fact

    def payloads(self) -> tuple[Any, Any]:
        """What each has made of the payload."""
        asked = editable(self.params)
        return self.recorded.get("payload", asked), self.replayed.get("payload", asked)


class Replay:
    """Asks a host what a record says was asked. Its `listener` is one of the host's."""

    def __init__(self) -> None:
        self.unanswered = 0
        """Questions that the record has no answer to: whoever asked gave up, or the host was killed."""
        self.listener = Scribe(self._take)
        self._reader = Reader("the replay")
        self._end: End | None = None

    def _take(self, line: bytes) -> None:
        entry = self._reader.take(line)
        if isinstance(entry, End):
            self._end = entry

    async def chains(self, entries: Iterable[Entry], host: Host) -> AsyncIterator[Compared]:
        """Every chain, and every event."""
        asked: dict[int, End] = {}
        for entry in entries:
            match entry:
                case Begun(chain):
                    asked[chain.number] = await self._ask(host, chain)
                case End(_, chain):
                    again = asked.pop(chain.number)
                    moved = _moved(_actions(entry), _actions(again))
                    yield Compared(
                        chain.line, chain.stage, chain.asked_about, "", entry.facts, again.facts, moved, _errors(again)
                    )
                case Abandoned():
                    del asked[entry.chain.number]
                    self.unanswered += 1
                case Told():
                    await host.emit_and_wait(entry.kind, entry.payload, meta=entry.meta)
        self.unanswered += len(asked)

    async def of_hook(self, name: str, entries: Iterable[Entry], host: Host) -> AsyncIterator[Compared]:
        """Every time that this hook was asked or told, to a host that has no other."""
        asked: dict[int, tuple[Ask, Facts, dict[str, str]]] = {}
        for entry in entries:
            match entry:
                case Ask(stands_in=False) if entry.hook == name:
                    end = await self._ask(host, entry.chain, payload_of(entry.chain.stage, entry.params), alone=True)
                    asked[entry.chain.number] = entry, _only(end, entry), _errors(end)
                case Answer(said, chain) if said.hook == name and chain.number in asked:
                    ask, *now = asked.pop(chain.number)
                    yield Compared(ask.line, chain.stage, ask.params, name, entry.facts, now[0], {}, now[1])
                case End() | Abandoned() if entry.chain.number in asked:
                    del asked[entry.chain.number]
                    self.unanswered += 1
                case Told() if name in entry.hooks:
                    await host.emit_and_wait(entry.kind, entry.payload, meta=entry.meta)
        self.unanswered += len(asked)

    async def _ask(self, host: Host, chain: Chain, payload: Payload | None = None, *, alone: bool = False) -> End:
        resumed = {} if alone else {"answered": chain.said, "skip": chain.without}
        await host.ask(chain.stage.name, payload or chain.payload(), **resumed)  # type: ignore[arg-type]
        end, self._end = self._end, None
        assert end is not None, "a chain that ended was listened"
        return end


def _only(end: End, ask: Ask) -> Facts:
    """What the only hook of a chain has decided."""
    (said,) = end.chain.answers
    facts = Answer(said, end.chain, ask.params).facts
    if ask.again and said.action in {words.CONTINUE, words.MODIFY} and "payload" in facts:
        return {"action": FAILED, "failed": "reply"}  # a guard that is asked again may not change the call
    return facts


def _errors(end: End) -> dict[str, str]:
    return {said.hook: said.error for said in end.chain.answers if said.error is not None}


def _actions(end: End) -> dict[str, str]:
    """Of each hook of a chain, what it came to at last."""
    actions = dict.fromkeys(end.said.skipped, "not asked: its filter")
    if end.chain.stage.approves:
        actions |= dict.fromkeys(end.chain.waiting, "not waited for")
    for said in end.chain.answers:
        facts = Answer(said, end.chain, {}).facts
        actions[said.hook] = f"{FAILED} ({said.failed})" if said.failed else facts["action"]
    return actions


def _moved(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    moved = {name: (before.get(name, "not asked"), after.get(name, "not asked")) for name in before | after}
    return {name: pair for name, pair in moved.items() if pair[0] != pair[1]}


def same(one: Any, other: Any) -> bool:
    """Whether two values are one as JSON: numbers exact, and true no 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def choose(hooks: dict[str, Known], name: str | None) -> str:
    """The hook that is meant: the only one, or the one that is named. Raises `PicohookError`."""
    asked = sorted(hook for hook, known in hooks.items() if known.stages)
    if not asked:
        raise PicohookError("no hook was asked anything in this record")
    if name is None and len(asked) > 1:
        raise PicohookError(f"the record has several hooks: name one with --hook ({', '.join(asked)})")
    if name is not None and name not in asked:
        raise PicohookError(f"no hook {name!r} was asked in this record (there are: {', '.join(asked)})")
    return name or asked[0]
