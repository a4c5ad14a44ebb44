"""Asks hooks about past calls again, one after another, in their order, and compares the decisions."""

import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ...engine.engine import Engine
from ...model.apply_edit import alike
from ...model.payloads import Meta
from ...protocol.codec import decode_own, encode
from ...wire import words
from .format import Line, answer_of, end_of
from .reader import Chain, Entry, editable
from .shown import ALLOWED

Facts = dict[str, Any]
FACTS = ("action", "failed", "reason", "feedback", "result", "notes", "payload")
FAILED = "failed"
"""The action of a hook in shadow that failed."""
KINDS = NEWLY_DENIED, NEWLY_ALLOWED, NEWLY_ASKED, OTHERWISE = (
    "newly denied",
    "newly allowed",
    "newly asked",
    "changed otherwise",
)
_GIT = re.compile(r"(?:^|[;&|(`\n])\s*(?:\w+=\S*\s+|sudo\s+)*git\s")
_PATHS = re.compile(r"""[^\s"'=:;|&<>()`]+""")
_MOST = 64
"""The names in a call that are looked up."""
_BATCH = 64
"""Entries that are read together."""


@dataclass(slots=True)
class Comparison:
    """One decision, then and now."""

    then: Chain
    now: Chain
    recorded: Facts
    replayed: Facts

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The facts that differ, each with its value then and now."""
        if self.recorded == self.replayed and alike(self.recorded, self.replayed):
            return {}  # as nearly always
        same = {"payload": editable(self.then.asked_about)}  # one that did not change is no fact
        found = ((fact, (same | self.recorded).get(fact), (same | self.replayed).get(fact)) for fact in FACTS)
        return {fact: (was, now) for fact, was, now in found if was != now or not alike(was, now)}

    @property
    def kind(self) -> str:
        """How a decision that changed has changed."""
        before, after = (facts["action"] in ALLOWED for facts in (self.recorded, self.replayed))
        if before and self.replayed["action"] == words.PAUSE:
            return NEWLY_ASKED  # a person decides
        if self.replayed["action"] in {FAILED, words.PAUSE} or before is after:
            return OTHERWISE
        return NEWLY_DENIED if before else NEWLY_ALLOWED


async def compared(past: Iterable[Entry], host: Engine | None, counts: Counter[str]) -> AsyncIterator[Comparison]:
    """Ask a host every question, and tell it every event. Yields each comparison.

    Without a host, compares what hooks in shadow would have decided. Counts the questions that are `not compared`: those
    without an end, and those that went on after a pause, which are not asked again.
    """
    past = iter(past)
    while batch := [*islice(past, _BATCH)]:  # reading and asking in turn would take twice the time
        if host is not None:
            await _ask(batch, host, counts)
        for line, chain in batch:
            kind = line["type"]
            if chain is None or kind not in {"end", "would"}:
                continue
            if host is None:
                for shadow in chain.shadows if kind == "end" else [line]:
                    yield _in_shadow(chain, shadow)
            elif kind == "end" and chain.now is not None:
                counts["not compared"] -= 1
                yield _compared(chain, chain.now)


async def _ask(batch: Iterable[Entry], host: Engine, counts: Counter[str]) -> None:
    for line, chain in batch:
        if line["type"] == "event":
            meta = Meta.model_validate(line.get("meta", {}))
            await host.emit_and_wait(line["event"], line["payload"], meta=meta)
        elif line["type"] == "begin" and chain is not None:
            counts["not compared"] += 1
            chain.now = None if chain.resumed else await _asked_now(host, chain)


def call_of(chain: Chain) -> int:
    """Returns a number that the stages which ask about one call have in common."""
    params = chain.asked_about
    return hash(params.get("tool_call_id") or json.dumps([params.get("tool"), params.get("arguments")]))


async def _asked_now(host: Engine, chain: Chain) -> Chain:
    """Ask a question again. For an agent, approvers decide about a call, too. Returns what a record of it would have."""
    outcome = await host.ask(chain.stage.name, chain.payload)
    trail, end = outcome.trail, end_of(outcome)
    params = chain.asked_about if outcome.payload is chain.payload else outcome.payload.wire()
    from_agent = chain.succeeded is not None
    if from_agent and outcome.action in {words.CONTINUE, words.MODIFY} and host.asked_at("approve_tool"):
        approval = await host.approve_tool(outcome.payload)
        action = outcome.action if approval.approved else words.DENY
        trail, end = trail + approval.trail, {**end_of(approval), "action": action, "approved": None}
    answers = [answer_of(entry) for entry in trail if entry.action]
    if params is not chain.asked_about or "result" in end or any(entry.notes for entry in trail):
        answers, end, params = decode_own(encode([answers, end, params]))
    asked = (chain.number, chain.at, chain.stage, chain.asked_about, chain.payload)
    return type(chain)(*asked, params, answers=answers, end=end)


def _compared(then: Chain, now: Chain) -> Comparison:
    one = Comparison(then, now, facts_of(then), facts_of(now))
    reasons = [facts.get("reason", "") for facts in (one.recorded, one.replayed)]
    was_answered = one.recorded["action"] != words.PAUSE and words.PAUSE in [
        line.get("action") for line in then.answers
    ]
    if one.replayed["action"] == words.PAUSE and (was_answered or reasons[0].startswith(reasons[1])):
        one.replayed = one.recorded  # it asked a person then, too, who answered, or there was none, and it denied
    return one


def _in_shadow(then: Chain, line: Line) -> Comparison:
    """Compares what a hook in shadow would have decided with what was decided."""
    action, approved = line["action"], None
    if "failed" in line:
        action = FAILED
    elif then.stage.approves:
        approved = action != words.DENY
    elif action in {words.CONTINUE, words.MODIFY}:
        action = words.MODIFY if "params" in line else words.CONTINUE
    end = {**line, "action": action, "approved": approved}
    now = replace(then, answers=[line], shadows=[], waiting=[], end=end, params=line.get("params", then.asked_about))
    one = Comparison(then, now, facts_of(then), facts_of(now))
    if one.recorded["action"] not in ALLOWED and one.replayed["action"] in {FAILED, *ALLOWED}:
        one.replayed = one.recorded  # a hook beside those that denied changes nothing
    return one


def facts_of(chain: Chain) -> Facts:
    """The outcome of a chain, and which of its hooks failed, without what is empty.

    They do not depend on a decision's form: a payload and a patch with the same result are equal.
    """
    end = chain.end or {}
    failed = {answer["hook"]: answer["failed"] for answer in chain.answers if "failed" in answer}
    facts = {
        "action": chain.verdict,
        "failed": failed,
        "reason": None if end.get("hook") in failed else end.get("reason"),  # an error's text may differ the next time
        "feedback": end.get("feedback"),
        "result": editable(end.get("result") or {}),
        "notes": [answer["notes"] for answer in chain.answers if "notes" in answer],
        "payload": None if chain.params is chain.asked_about else editable(chain.params),
    }
    return {name: value for name, value in facts.items() if value}


def changed_since(params: Mapping[str, Any], at: float) -> str:
    """Returns why the machine may be in another state than when this call was made; empty if there is no sign of it.

    A hook that looks at files or asks git may then decide otherwise for that reason alone.
    """
    arguments, cwd = params.get("arguments"), (params.get("context") or {}).get("cwd") or ""
    if not isinstance(arguments, dict) or not isinstance(cwd, str) or not at:
        return ""
    if cwd and not os.path.isdir(cwd):
        return f"{cwd} is not there any more"
    texts = [value for value in arguments.values() if isinstance(value, str)]
    if any(_GIT.search(text[:10_000]) for text in texts):
        return "it uses git, whose state is another now"
    words = dict.fromkeys(word for text in texts for word in _PATHS.findall(text[:2000]))
    for word in list(words)[:_MOST]:
        if not (os.path.isabs(word) or cwd):
            continue
        try:
            changed = os.lstat(os.path.join(cwd, word)).st_ctime > at
        except (OSError, ValueError):
            changed = os.path.isabs(word) and os.path.isdir(os.path.dirname(word)) and word.count("/") > 1
        if changed:
            return f"{word} was changed, made or removed since"
    return ""
