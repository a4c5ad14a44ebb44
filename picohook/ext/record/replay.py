"""Asks hooks about past calls again, one after another, in their order, and compares the decisions."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...model.decisions import Outcome
from ...model.payloads import Meta
from ...model.spec import HookSpec, WholeModeSpec
from ...model.trail import TrailEntry
from ...wire import words
from .facts import NAMES, Facts, editable, end_with, facts_of_end, facts_of_outcome, same, word_of
from .reader import Chain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator

    from ...engine.engine import Engine
    from .format import Line
    from .reader import Entry, Record

Past = tuple[str, Any]
"""The type of a line, and the event, or the chain that begins there, has ended, or has the late answer of a hook in shadow."""

FAILED = "failed"
"""The action of a hook that failed, since the action of its `on_failure` is not its own decision."""
KINDS = NEWLY_DENIED, NEWLY_ALLOWED, NEWLY_ASKED, OTHERWISE = (
    "newly denied",
    "newly allowed",
    "newly asked",
    "changed otherwise",
)
_ALLOWED = frozenset({words.CONTINUE, words.MODIFY, words.RESPOND, "approved"})
_BATCH = 64
"""Lines that are read together."""
_MOST_WAITING = 256
"""Newly denied calls that wait for what became of them then."""


class RecordedHook:
    """A hook of a record."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        """Its last settings in the record."""
        self.kind = HookSpec
        self.named: set[str] = set()
        """The stages that its settings name."""
        self.stages: set[str] = set()
        """The stages at which it was asked."""
        self.observe: list[str] = []

    def stand_in(self, name: str, command: Collection[str]) -> HookSpec:
        """The settings of a program that answers in its place."""
        stages = sorted(self.stages if self.kind is HookSpec else self.named)
        # It runs as on the command line that names it. If it does not start, the replay ends.
        runs = {"name": name, "command": list(command), "inherit_env": True, "required": True}
        return self.kind.model_validate({**self.settings, **runs, "stages": stages, "observe": self.observe})


def recorded_hooks(entries: Iterable[Entry]) -> dict[str, RecordedHook]:
    """The hooks of a record, by name. Reads the whole record, so a damaged one is refused before anything runs."""
    hooks: defaultdict[str, RecordedHook] = defaultdict(RecordedHook)
    for line, chain in entries:
        if line["type"] == "hook":
            hook = hooks[line["hook"]]
            hook.settings, hook.kind = line["settings"], WholeModeSpec if "whole_modes" in line else HookSpec
            hook.named.update(hook.settings.get("stages", ()))
        elif line["type"] == "ask" and chain is not None and "stands_in" not in line:
            hooks[line["hook"]].stages.add(chain.stage.name)
        for name in line.get("hooks", ()):
            hooks[name].observe = ["*"]
    return dict(hooks)


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


def questions(entries: Iterable[Entry]) -> Iterator[Past]:
    """Yields the questions to all hooks, and the events."""
    for line, chain in entries:
        kind = line["type"]
        if chain is None:
            if kind == "event":
                yield kind, line
        elif kind in {"begin", "end", "abandoned"}:
            yield kind, chain
        elif chain.end is not None:
            yield "would", replace(chain, shadows=[line])


def questions_to(hook: str, record: Record) -> Iterator[Past]:
    """Yields the questions to one hook, each time that it was asked, and the events that it was told of."""
    asked: dict[int, Chain] = {}
    for line, chain in record:
        kind = line["type"]
        if chain is None:
            if hook in line.get("hooks", ()):
                yield "event", line
        elif kind == "ask" and line["hook"] == hook and "stands_in" not in line:
            if chain.number in asked:
                yield "retried", asked[chain.number]  # the answer that comes is to this question
            params = chain.waiting[hook]
            payload = chain.stage.payload.model_validate(params)
            skipped = chain.resumed.skip if chain.resumed else ()
            again = hook in skipped or any(answer["hook"] == hook for answer in chain.answers)
            one = Chain(chain.number, record.number, chain.at, chain.stage, params, payload, params=params, again=again)
            asked[one.number] = one
            yield "begin", one
        elif chain.number in asked and kind in {"end", "abandoned"}:
            yield "abandoned", asked.pop(chain.number)
        elif chain.number in asked and kind == "answer" and line["hook"] == hook:
            one = asked.pop(chain.number)
            one.answers, one.end = [line], end_with(line, approves=one.stage.approves)
            one.params = line.get("params", one.asked_about)
            yield "end", one


@dataclass(slots=True)
class Comparison:
    """One decision, then and now."""

    then: Chain
    now: Outcome[Any]
    recorded: Facts
    replayed: Facts
    hook: str = ""
    """The hook that decided; empty for a whole chain."""
    succeeded: bool | None = None
    """Whether the call was made then and succeeded; None if this is not known."""

    def differences(self, ignored: Collection[str] = ()) -> Iterator[str]:
        """The names of the facts that differ."""
        for fact in NAMES:
            if fact in ignored or (fact not in self.recorded and fact not in self.replayed):
                continue
            if not same(self.recorded.get(fact), self.replayed.get(fact)):
                yield fact

    def values(self, fact: str) -> tuple[Any, Any]:
        """The recorded value of a fact, and the replayed one. A payload that did not change is the one that was asked about."""
        unchanged = editable(self.then.asked_about) if fact == "payload" else None
        return self.recorded.get(fact, unchanged), self.replayed.get(fact, unchanged)

    @property
    def kind(self) -> str:
        """How a decision that changed has changed."""
        before, after = (facts["action"] in _ALLOWED for facts in (self.recorded, self.replayed))
        if before and self.replayed["action"] == words.PAUSE:
            return NEWLY_ASKED  # a person decides
        if self.replayed["action"] in {FAILED, words.PAUSE} or before is after:
            return OTHERWISE
        return NEWLY_DENIED if before else NEWLY_ALLOWED

    @property
    def errors(self) -> dict[str, str]:
        """The errors of hooks that failed now."""
        return {entry.hook: entry.error for entry in self.now.trail if entry.error is not None}

    @property
    def has_failed(self) -> bool:
        """Whether a hook failed now that did not fail then, so that this says nothing of its decisions."""
        failed = {line["hook"] for line in self.then.answers if "failed" in line}
        return any(entry.failure and entry.hook not in failed for entry in self.now.trail)


class Replay:
    """Asks a host the questions again, or one hook alone; without a host, compares what hooks in shadow would have decided."""

    def __init__(self, hook: str = "") -> None:
        self.unanswered = 0
        """The number of questions that have no answer in the record: the caller was cancelled, or the host was killed."""
        self.succeeded = 0
        """The number of calls that were made then and succeeded."""
        self.hook = hook
        self._asked: dict[int, Outcome[Any]] = {}
        """The answers to questions that have not ended in the record, by the identity of their chains."""
        self._waiting: dict[str, list[Comparison]] = {}
        """Newly denied calls until their results are read."""

    async def compared(self, past: Iterable[Past], host: Engine | None) -> AsyncIterator[Comparison]:
        """Ask every question, and tell every event. Yields each comparison, of a denied call when its result is read."""
        past = iter(past)
        while batch := [*islice(past, _BATCH)]:  # reading and asking in turn would take twice the time
            if host is not None:
                await self._ask(batch, host)
            for kind, one in batch:
                for comparison in self._known(kind, one, is_asked=host is not None):
                    yield comparison
        self.unanswered += len(self._asked)
        left, self._waiting, self._asked = self._waiting, {}, {}
        for several in left.values():
            for comparison in several:
                yield comparison

    async def _ask(self, batch: Iterable[Past], host: Engine) -> None:
        for kind, one in batch:
            if kind == "event":
                meta = Meta.model_validate(one.get("meta", {}))
                await host.emit_and_wait(one["event"], one["payload"], meta=meta)
            elif kind == "begin":
                self._asked[id(one)] = await _ask(host, one)

    def _known(self, kind: str, one: Any, *, is_asked: bool) -> Iterable[Comparison]:
        """Returns what is known now about decisions."""
        if kind == "begin":
            return self._returned(one)
        if not is_asked and kind in {"end", "would"}:
            return [kept for line in one.shadows for kept in self._keep(_in_shadow(one, line))]
        if is_asked and kind == "end":
            return self._keep(_compared(one, self._asked.pop(id(one)), self.hook))
        if is_asked and kind in {"abandoned", "retried"}:
            del self._asked[id(one)]
            self.unanswered += kind == "abandoned"
        return []

    def _keep(self, one: Comparison) -> list[Comparison]:
        """Returns what does not wait for the result of its call, or no more."""
        if self.hook or one.then.agent or one.kind != NEWLY_DENIED:
            one.succeeded = one.then.succeeded
            self.succeeded += one.succeeded is True
            return [one]
        self._waiting.setdefault(_call(one.then), []).append(one)
        return self._waiting.pop(next(iter(self._waiting))) if len(self._waiting) > _MOST_WAITING else []

    def _returned(self, chain: Chain) -> list[Comparison]:
        """Returns the denied calls whose result this chain is about."""
        result = chain.asked_about.get("result")
        if self.hook or chain.stage.name != "after_tool" or not isinstance(result, dict):
            return []
        good = not result.get("is_error")
        self.succeeded += good
        found = self._waiting.pop(_call(chain), []) if self._waiting else []
        for one in found:
            one.succeeded = good
        return found


def _call(chain: Chain) -> str:
    """What the stages that ask about one call have in common."""
    params = chain.asked_about
    return params.get("tool_call_id") or json.dumps([params.get("tool"), params.get("arguments")])


async def _ask(host: Engine, chain: Chain) -> Outcome[Any]:
    """Ask a question again. For an agent, approvers decide about a call, too."""
    outcome = await host.ask(chain.stage.name, chain.payload, resumed=chain.resumed)
    if chain.agent and outcome.action in {words.CONTINUE, words.MODIFY} and host.asked_at("approve_tool"):
        approval = await host.approve_tool(outcome.payload)
        action = outcome.action if approval.approved else words.DENY
        trail = outcome.trail + approval.trail
        outcome = replace(approval, stage=chain.stage.name, action=action, approved=None, trail=trail)
    return outcome


def _compared(chain: Chain, now: Outcome[Any], hook: str) -> Comparison:
    assert chain.end is not None
    one = Comparison(
        chain,
        now,
        facts_of_end(chain.end, chain.answers, chain.edited),
        facts_of_outcome(now, chain.payload),
        hook,
    )
    if chain.agent and one.replayed["action"] in _ALLOWED:
        one.replayed["action"] = words.CONTINUE  # a transcript says no more than whether a call was allowed
    if now.action == words.PAUSE and one.recorded.get("reason", "").startswith(now.reason):
        one.replayed = one.recorded  # it asked a person then, too, but there was none, and it denied
    if hook:
        (entry,) = now.trail
        edits = "payload" in one.replayed and now.action in {words.CONTINUE, words.MODIFY}
        if chain.again and edits and entry.failure is None:
            one.replayed["failed"] = {hook: "reply"}  # a guard may not change a call about which it is asked again
        reason = {"reason": entry.reason} if entry.reason else {}
        one.recorded, one.replayed = _of_hook(one.recorded), _of_hook(one.replayed | reason)
    return one


def _of_hook(facts: Facts) -> Facts:
    """The facts of a chain with one hook, as those of the hook alone."""
    if "failed" in facts:
        (failed,) = facts["failed"].values()
        return {"action": FAILED, "failed": failed}
    return facts | ({"notes": facts["notes"][0]} if "notes" in facts else {})


def _in_shadow(chain: Chain, line: Line) -> Comparison:
    """Compares what a hook in shadow would have decided with what was decided."""
    assert chain.end is not None
    end, failed = end_with(line, approves=chain.stage.approves), line.get("failed")
    recorded = facts_of_end(chain.end, chain.answers, chain.edited)
    replayed = facts_of_end(end, [line], line.get("params"))
    if failed:
        replayed = {"action": FAILED, "failed": failed}
    if recorded["action"] not in _ALLOWED and replayed["action"] in {FAILED, *_ALLOWED}:
        replayed = recorded  # a hook beside those that denied changes nothing
    entry = TrailEntry(
        line["hook"], "", line["seconds"], line.get("error"), reason=line.get("reason", ""), failure=failed
    )
    entry.would = "have failed" if failed else word_of(end)
    now = Outcome(chain.stage.name, words.CONTINUE, chain.payload, trail=(entry,))
    return Comparison(chain, now, recorded, replayed, line["hook"])
