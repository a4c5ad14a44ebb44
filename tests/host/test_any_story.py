"""Any story of a host and two real hooks, of which the test is the brain: every call ends once, and no yes is made up.

What comes of a call depends on time too, and so nothing here says that it goes well. It says what may not come of it: an
answer that nobody gave to this very question, and a yes where anything but a yes came from anybody.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import select
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from scripted import HELLO, PATIENCE, Switchboard, scripted

from picohook import Host, PicohookError, RestartPolicy, Timeouts, ToolCall
from picohook.process import restart

NEAR = Timeouts(interceptor=0.1, approval=0.1, hello=PATIENCE, chain=0.3)
STORIES = settings(max_examples=15, stateful_step_count=30, phases=[Phase.generate])
NAMES = ("a", "b")
HOOKS = st.sampled_from(NAMES)
WHICH = st.integers(0, 9)

END_IT = {
    "good": None,
    "no": '{"jsonrpc":"2.0","id":%d,"result":{"approved":false,"action":"continue"}}',
    "nearly": '{"jsonrpc":"2.0","id":%d,"result":{"approved":"yes"}}',
    "error": '{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"no"}}',
    "both": '{"jsonrpc":"2.0","id":%d,"result":{"approved":true},"error":{"code":1,"message":"no"}}',
    "twice": '{"jsonrpc":"2.0","id":%d,"result":{"approved":false,"approved":true}}',
}
"""Answers that end their question; the first of them counts."""
MEAN_NOTHING = {
    "an id as a text": '{"jsonrpc":"2.0","id":"%d","result":{"approved":true}}',
    "an id as a fraction": '{"jsonrpc":"2.0","id":%d.0,"result":{"approved":true}}',
    "an id of the future": '{"jsonrpc":"2.0","id":%d0000,"result":{"approved":true}}',
    "a batch": '[{"jsonrpc":"2.0","id":%d,"result":{"approved":true}}]',
    "no json": '{"jsonrpc":"2.0","id":%d,"result":{"approved":true}',
    "a bad number": '{"jsonrpc":"2.0","id":%d,"result":{"approved":true,"x":NaN}}',
}
ANSWERS = st.just("good") | st.sampled_from([*END_IT, *MEAN_NOTHING])


@dataclass
class Question:
    """What a hook was asked."""

    id: int
    approval: bool
    nonce: int
    given: list[str] = field(default_factory=list)
    """The answers that were given to it, of those that end it."""
    done: bool = False
    """Whether it had any answer."""


class Puppet:
    """One process of a hook."""

    def __init__(self, name, line) -> None:
        self.name = name
        self.line = line
        self.asked: list[Question] = []
        self._buffered = b""
        self._pidfd = None
        with contextlib.suppress(ProcessLookupError):  # it may be over already
            self._pidfd = os.pidfd_open(line.pid)

    def signal(self, number) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def listen(self) -> None:
        """Take what has come in."""
        self._buffered += self.line.take()
        *lines, self._buffered = self._buffered.split(b"\n")
        for line in map(json.loads, lines):
            if "id" in line:
                approval = line["method"] == "hook.approve_tool"
                self.asked.append(Question(line["id"], approval, line["params"]["arguments"]["nonce"]))

    def say(self, text: str) -> None:
        self.line.say(f"{text}\n".encode())

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)


class Story(RuleBasedStateMachine):
    def __init__(self, backend: str, seen: Counter[str]) -> None:
        super().__init__()
        self.seen = seen
        self.closed = False
        self.planned: list[dict[str, str]] = []
        self.board = Switchboard()
        self.puppets: dict[str, list[Puppet]] = {name: [] for name in NAMES}
        self.calls: list[tuple[int, bool, concurrent.futures.Future]] = []
        self.stack = contextlib.ExitStack()
        portal = self.stack.enter_context(start_blocking_portal(backend))
        self.host = Host(
            [
                scripted(
                    name, HELLO, self.board.call(name), ["relay"], stages=("before_tool", "approve_tool"),
                    restart=RestartPolicy(max_starts=10_000), grace=0.05,
                )
                for name in NAMES
            ],
            timeouts=NEAR,
        )  # fmt: skip
        self.stack.enter_context(portal.wrap_async_context_manager(self.host))
        self.portal = portal
        while not all(self.puppets.values()):
            self.listen()

    def listen(self) -> None:
        """Take what the hooks were asked, and the new ones of them."""
        select.select([self.board, *(one.line for one in self.all() if one.line.alive)], [], [], 0.005)
        for name, line in self.board.called():
            self.puppets[name].append(Puppet(name, line))
        for puppet in self.all():
            puppet.listen()

    def all(self) -> list[Puppet]:
        return [one for puppets in self.puppets.values() for one in puppets]

    def question(self, name: str, which: int) -> tuple[Puppet, Question] | None:
        """One of the last questions, counted from the end; it may be of an earlier process."""
        self.listen()
        found = [(one, question) for one in self.puppets[name] for question in one.asked]
        return found[-1 - which % len(found)] if found else None

    async def ask(self, nonce: int, *, approval: bool):
        call = ToolCall(tool="x", arguments={"nonce": nonce})
        return await (self.host.approve_tool(call) if approval else self.host.before_tool(call))

    @rule(calls=st.lists(st.tuples(st.booleans(), st.tuples(ANSWERS, ANSWERS)), min_size=1, max_size=6))
    def call(self, calls):
        for approval, answers in calls:
            self.begin(approval=approval, answers=answers)

    @rule(calls=st.lists(st.tuples(st.booleans(), st.tuples(ANSWERS, ANSWERS)), min_size=1, max_size=6))
    def call_and_answer(self, calls):
        self.call(calls)
        self.all_answer()

    def begin(self, *, approval, answers):
        nonce = len(self.calls)
        self.planned.append(dict(zip(NAMES, answers, strict=True)))
        future = self.portal.start_task_soon(partial(self.ask, nonce, approval=approval))
        self.calls.append((nonce, approval, future))
        return future

    @rule(name=HOOKS, which=WHICH, how=ANSWERS)
    def reply(self, name, which, how):
        if found := self.question(name, which):
            self.give(*found, how)

    @rule()
    def all_answer(self):
        """As they were to when they were asked."""
        for name in NAMES:
            self.listen()
            for puppet in self.puppets[name]:
                for question in puppet.asked:
                    if not question.done:
                        self.give(puppet, question, self.planned[question.nonce][name])

    def give(self, puppet, question, how):
        question.done = True
        if how in MEAN_NOTHING:
            puppet.say(MEAN_NOTHING[how] % question.id)
            return
        question.given.append(how)
        signed = {"arguments": {"nonce": question.nonce, puppet.name: question.nonce}}
        good = {"approved": True} if question.approval else {"action": "modify", "call": signed}
        good = json.dumps({"jsonrpc": "2.0", "id": question.id, "result": good})
        puppet.say(good if how == "good" else END_IT[how] % question.id)

    @rule(
        name=HOOKS, text=st.sampled_from(["\x1b[31mgarbage", "", "\ufeff{}", "null", '{"jsonrpc":"2.0","method":"x"}'])
    )
    def garbage(self, name, text):
        self.puppets[name][-1].say(text)

    @rule(name=HOOKS, what=st.sampled_from([signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM]))
    def send(self, name, what):
        self.puppets[name][-1].signal(what)

    @rule(name=HOOKS, which=WHICH)
    def die_in_mid_line(self, name, which):
        if found := self.question(name, which):
            puppet, question = found
            puppet.line.say(b'{"jsonrpc":"2.0","id":%d,"result":{"approved":true}}' % question.id)
            puppet.signal(signal.SIGKILL)

    @rule(which=WHICH)
    def cancel(self, which):
        if self.calls:
            self.calls[-1 - which % len(self.calls)][2].cancel()

    @rule(name=HOOKS)
    def restart(self, name):
        with contextlib.suppress(PicohookError):
            self.portal.call(self.host.restart, name)

    @rule(chance=st.integers(0, 9))
    def close(self, chance):
        if chance == 0:
            self.portal.call(self.host.aclose)
            self.closed = True

    def all_is_well_again(self) -> None:
        """Nobody does anything to the hooks any more, and so before long a call goes well."""
        for puppet in self.all():
            puppet.signal(signal.SIGCONT)
        for approval in (True, False):
            end = (
                time.monotonic() + 3 * PATIENCE
            )  # an attempt fails when a hook has no processor for a tenth of a second
            well = False
            while not well:
                assert time.monotonic() < end
                future = self.begin(approval=approval, answers=("good", "good"))
                while not future.done():
                    self.all_answer()
                well = all(entry.error is None for entry in future.result().trail)
                assert future.result().approved is (well if approval else None)

    def teardown(self):
        try:
            _, waiting = concurrent.futures.wait([future for _, _, future in self.calls], PATIENCE)
            assert not waiting
            if not self.closed:
                self.all_is_well_again()
            self.listen()
            self.nothing_is_sent_twice()
            for nonce, approval, future in self.calls:
                if future.cancelled():
                    self.seen["cancelled"] += 1
                elif future.exception() is not None:
                    assert isinstance(future.exception(), PicohookError)
                    assert "closed" in str(future.exception())
                    self.seen["after its end"] += 1
                elif approval:
                    self.check_approval(nonce, future.result())
                else:
                    self.check_interception(nonce, future.result())
        finally:
            self.stack.close()
            for puppet in self.all():
                puppet.close()
            self.board.close()

    def first(self, name: str, nonce: int) -> str | None:
        """The answer that counts of those that a hook gave to a call's question."""
        asked = (question for one in self.puppets[name] for question in one.asked if question.nonce == nonce)
        return next((question.given[0] for question in asked if question.given), None)

    def nothing_is_sent_twice(self) -> None:
        for puppets in self.puppets.values():
            nonces = Counter(question.nonce for one in puppets for question in one.asked)
            assert set(nonces.values()) <= {1}

    def check_approval(self, nonce: int, outcome) -> None:
        assert sorted(entry.hook for entry in outcome.trail) == list(NAMES)
        self.seen["approved" if outcome.approved else "denied"] += 1
        if outcome.approved:
            assert [self.first(name, nonce) for name in NAMES] == ["good", "good"]
        else:
            assert outcome.action == "deny_tool"
            assert outcome.reason or outcome.hook

    def check_interception(self, nonce: int, outcome) -> None:
        """Who did not fail has signed, if that is what it was made to do; and nothing else is changed."""
        assert [entry.hook for entry in outcome.trail] == list(NAMES)
        signed = [name for name in NAMES if name in outcome.payload.arguments]
        self.seen["signed" if signed else "not signed"] += 1
        assert set(signed) <= {entry.hook for entry in outcome.trail if entry.error is None}
        assert outcome.payload.arguments == {"nonce": nonce, **dict.fromkeys(signed, nonce)}
        assert all(self.first(name, nonce) == "good" for name in signed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_call_ends_once_and_no_yes_is_made_up(backend, monkeypatch):
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 0.001)
    seen: Counter[str] = Counter()
    run_state_machine_as_test(lambda: Story(backend, seen), settings=STORIES)
    assert {"approved", "denied", "signed", "not signed", "cancelled", "after its end"} <= seen.keys(), seen
