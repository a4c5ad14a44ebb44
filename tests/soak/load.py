"""Twenty hooks, calls that ask them, and what is done to them meanwhile."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from gauge import has_mark, waited

from picohook import Host, ToolCall

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

HOOKS = 20
ASKING = 30
"""Callers at a time."""
TIMEOUT = 0.4
BUDGET = 2.0
"""Seconds for one hook, and for a chain of them."""
OVERRUN = 0.25
"""Seconds past its deadline within which a call has ended."""
LOST = 30.0
"""A call that takes so long does not end."""
SCRIPT = str(Path(__file__).with_name("hook.py"))

HARMLESS = ("noise", "stranger", "stderr", "daemon")
"""What a hook may do and still give its answer."""
HARMFUL = (
    *("late", "never", "no", "sloppy", "both", "twice", "mid_line", "segfault"),
    *("flood", "endless", "close_stdout", "deaf"),
)
BAD = 0.05
"""How many of the questions tell a hook to misbehave."""


@dataclass
class Tally:
    """What came of it all."""

    calls: int = 0
    answered: int = 0
    failed: int = 0
    approved: int = 0
    denied: int = 0
    lost: int = 0
    misattributed: int = 0
    false_approvals: int = 0
    worst_overrun: float = 0.0
    excused: int = 0
    """Calls that ended too late, and would not have if the machine had always had a processor for the host."""
    done: Counter[str] = field(default_factory=Counter)
    """What was done to the hooks."""
    wrong: list[str] = field(default_factory=list)
    """The first of what should not have been."""

    def ended(self, overrun: float, waited: float) -> None:
        self.worst_overrun = max(self.worst_overrun, overrun)
        if overrun - waited > OVERRUN:
            late = f"{overrun * 1000:.0f} ms past its deadline, {waited * 1000:.0f} of them without a processor"
            self.breach(f"a call ended {late}")
        elif overrun > OVERRUN:
            self.excused += 1

    def breach(self, what: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(what)


class Load:
    """What goes on until it is stopped."""

    def __init__(self, host: Host, config: Config, mark: str, chance: random.Random, tally: Tally) -> None:
        self.host = host
        self.config = config
        self.mark = mark
        self.chance = chance
        self.tally = tally
        self._nonce = 0

    async def run(self, seconds: float) -> None:
        """All of it, for so long; then nothing of it goes on."""
        end = anyio.current_time() + seconds
        async with anyio.create_task_group() as tasks:
            for _ in range(ASKING):
                tasks.start_soon(self._again_and_again, end, self._ask, 0.05)
            for what, pause in ((self._kill, 0.5), (self._stop, 0.8), (self._reload, 2.0), (self._revive, 0.3)):
                tasks.start_soon(self._again_and_again, end, what, pause)
            tasks.start_soon(self._again_and_again, end, self._tell, 0.02)

    async def _again_and_again(self, end: float, do: Callable[[], Awaitable[None]], pause: float) -> None:
        while anyio.current_time() < end:
            await do()
            await anyio.sleep(self.chance.uniform(0, 2 * pause))

    # Asking.

    async def _ask(self) -> None:
        mounted = [hook.name for hook in self.host.asked_at("approve_tool")]
        name = self.chance.choice(mounted)
        asked = mounted if self.chance.random() < 0.1 else [name]
        do = {}
        if self.chance.random() < BAD:
            do = {self.chance.choice(asked): self.chance.choice((*HARMLESS, *HARMFUL))}
        await self.ask(asked, do, approval=self.chance.random() < 0.5)

    async def ask(self, asked: list[str], do: dict[str, str], *, approval: bool) -> bool:
        """Ask these hooks, each of which may be told to misbehave; hold what comes of it to what was promised.

        Whether it went as if nobody had misbehaved.
        """
        self._nonce += 1
        tool = asked[0] if len(asked) == 1 else "all"
        given = {"nonce": f"{self._nonce}", "by": [], "do": do, "good": self.chance.random() < 0.7}
        given["pad"] = "x" * self.chance.choice((0, 100, 5000, 50_000))
        call = ToolCall(tool=tool, arguments=given)
        deadline, taken = time.monotonic() + (BUDGET if tool == "all" and not approval else TIMEOUT), waited()
        self.tally.calls += 1
        with anyio.move_on_after(LOST):
            if approval:
                good = self._approval(await self.host.approve_tool(call), given, asked)
            else:
                good = self._interception(await self.host.before_tool(call), given)
            self.tally.ended(time.monotonic() - deadline, waited() - taken)
            return good
        self.tally.lost += 1
        self.tally.breach(f"lost: {tool} {do}")
        return False

    def _interception(self, outcome: Any, given: dict[str, Any]) -> bool:
        """Each hook that did not fail has signed, in order, and none has signed for another call."""
        arguments = outcome.payload.arguments
        signed = [entry.hook for entry in outcome.trail if entry.action == "modify" and not entry.error]
        failed = [entry.hook for entry in outcome.trail if entry.error]
        self.tally.failed += bool(failed)
        self.tally.answered += not failed
        if arguments != {**given, "by": signed}:
            self.tally.misattributed += 1
            self.tally.breach(f"misattributed: {given['nonce']} came back as {json.dumps(arguments)[:300]}")
        return not failed

    def _approval(self, outcome: Any, given: dict[str, Any], asked: list[str]) -> bool:
        """Yes, only if every hook was to say so, and did; and a no has its own nonce."""
        entries = [entry for entry in outcome.trail if not entry.skipped]
        clean = all(entry.action == "continue" and entry.error is None for entry in entries)
        right = given["good"] and not set(given["do"].values()) & set(HARMFUL)
        self.tally.approved += outcome.approved
        self.tally.denied += not outcome.approved
        if outcome.approved and not (right and clean and [entry.hook for entry in entries] == asked):
            self.tally.false_approvals += 1
            self.tally.breach(f"approved: {given['good']} {given['do']} {[entry.wire() for entry in entries]}")
        for entry in entries:
            if entry.reason and entry.reason != given["nonce"] and entry.error is None:
                self.tally.misattributed += 1
                self.tally.breach(f"misattributed: {given['nonce']} was denied for {entry.reason!r}")
        return outcome.approved is given["good"] and all(entry.error is None or given["good"] for entry in entries)

    async def _tell(self) -> None:
        self.host.emit("turn_start", {"UserMessage": "x" * self.chance.choice((10, 10_000))})

    # Doing.

    def _victim(self) -> int | None:
        """A descriptor of a hook's process, so that no stranger is met."""
        pids = [hook.pid for hook in self.host.status().hooks if hook.pid is not None]
        if not pids:
            return None
        pid = self.chance.choice(pids)
        try:
            victim = os.pidfd_open(pid)
        except OSError:
            return None
        if has_mark(pid, self.mark):
            return victim
        os.close(victim)
        return None

    def _send(self, victim: int, number: int) -> None:
        try:
            signal.pidfd_send_signal(victim, number)
        except ProcessLookupError:
            return
        self.tally.done[signal.Signals(number).name] += 1

    async def _kill(self) -> None:
        victim = self._victim()
        if victim is not None:
            self._send(victim, self.chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            os.close(victim)

    async def _stop(self) -> None:
        victim = self._victim()
        if victim is not None:
            try:
                self._send(victim, signal.SIGSTOP)
                await anyio.sleep(self.chance.uniform(0, 1))
                self._send(victim, signal.SIGCONT)
            finally:
                os.close(victim)

    async def _revive(self) -> None:
        """Hooks that were given up, and some that wait, are started again."""
        for hook in self.host.status().hooks:
            if hook.state == "failed" or (hook.state == "restarting" and self.chance.random() < 0.2):
                try:
                    self.host.reset(hook.name)
                except LookupError:
                    continue
                self.tally.done["reset"] += 1

    async def _reload(self) -> None:
        self.config.change(self.chance)
        self.config.write()
        await self.host.reload()
        self.tally.done["reload"] += 1


class Config:
    """The configuration of the hooks, written anew again and again."""

    def __init__(self, path: Path, mark: str) -> None:
        self.path = path
        self._mark = mark
        self._generations = {f"h{number:02}": 0 for number in range(HOOKS)}
        self._out: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The hooks that it has now."""
        return [name for name in self._generations if name not in self._out]

    def change(self, chance: random.Random) -> None:
        """Some hooks get other settings, one goes, one comes back."""
        for name in chance.sample(self.names, 2):
            self._generations[name] += 1
        if self._out:
            self._out.clear()
        elif chance.random() < 0.5:
            self._out.add(chance.choice(self.names))

    def whole(self) -> None:
        self._out.clear()

    def write(self) -> Path:
        defaults = {
            "interceptor_timeout": TIMEOUT,
            "approval_timeout": TIMEOUT,
            "chain_budget": BUDGET,
            "hello_timeout": 10.0,
        }
        text = _table("defaults", defaults)
        for name in self.names:
            text += _table(
                f"hooks.{name}",
                {
                    "command": [sys.executable, "-I", "-S", SCRIPT, name],
                    "stages": ["before_tool", "approve_tool"],
                    "observe": ["*"],
                    "filter.tool": f"all|{name}",
                    "env.PICOHOOK_SOAK": self._mark,
                    "env.GENERATION": str(self._generations[name]),
                    "max_line_bytes": 200_000,
                    "grace": 0.2,
                    "restart.max_starts": 10,
                    "restart.window": 5.0,
                },
            )
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)
        return self.path


def _table(name: str, settings: dict[str, Any]) -> str:
    # JSON's strings, numbers and lists are TOML's.
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()) + "\n"
