"""Runs the command of a hook to its end, again and again: writes its input, reads its output, and kills its group."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from ..errors import HookCrashedError, HookTimeoutError
from ..model.spec import HookSpec
from ..transport.pipe import LinePipe
from .child import Child
from .environment import environment
from .plan import Plan, Planner, Seen
from .spawn import ProcessServices


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """The exit code and the output of a process that has ended."""

    exit_code: int
    stdout: bytes
    stderr_tail: str


class Runner:
    """Plans the start of a hook's command, and runs it to its end.

    `trusted` is the hook whose files are verified, if the command is only a part of it.
    """

    def __init__(self, spec: HookSpec, host: ProcessServices, trusted: HookSpec | None = None) -> None:
        self._spec, self._host = spec, host
        self._planner = Planner(spec, host.verify, trusted)
        self._planned: tuple[str | None, Plan] | None = None
        """The last plan, and the PATH that it was made for."""

    async def run(
        self, stdin: bytes, deadline: float, more: Mapping[str, str], hidden: tuple[str, ...] = ()
    ) -> FinishedProcess:
        """Run the command with `more` variables, without those whose names begin with one of `hidden`.

        Raises `HookError` if it cannot be started, is late, or writes too much, and if its files changed meanwhile.
        """
        seen, planned = await self._plan(deadline)
        env = {name: value for name, value in planned.env.items() if not (hidden and name.startswith(hidden))}
        try:
            finished = await self.run_once(replace(planned, env={**env, **more}), stdin, deadline)
        except HookCrashedError:
            self._planned = None  # the next plan finds and names the cause
            raise
        await self._planner.require_unchanged(seen, deadline)
        return finished

    async def _plan(self, deadline: float) -> tuple[Seen | None, Plan]:
        """The verified files, and the plan of the start. Without a `verify`, the last plan is reused."""
        path = os.environ.get("PATH")
        if self._host.verify is None and self._planned is not None and self._planned[0] == path:
            return None, replace(self._planned[1], env=environment(self._spec, os.environ))
        seen, planned = await self._planner.plan(deadline)
        self._planned = path, planned
        return seen, planned

    async def run_once(self, planned: Plan, stdin: bytes, deadline: float) -> FinishedProcess:
        """Run a process to its end. Raises `HookError` if it cannot be started, is late, or writes too much.

        This returns when the process itself ends, even if it has not read its input, or a grandchild holds the pipes open.
        Then, and at the deadline and on cancellation, its whole group is killed.
        """
        host, name, most = self._host, self._spec.name, self._spec.max_line_bytes
        done = host.reactor.waiter()
        output = bytearray()
        rest = memoryview(stdin)
        overflowed = False

        def received(data: bytes) -> None:
            nonlocal overflowed
            output.extend(data)
            if len(output) > most and not overflowed:
                overflowed = True
                output.clear()
                pipe.close_read()
                done.settle(None)

        def feed() -> bool:
            nonlocal rest
            try:
                rest = rest[pipe.write([rest]) :] if rest else rest
            except OSError:
                rest = memoryview(b"")
            if not rest:
                pipe.close_write()
            return bool(rest)

        try:
            ended = partial(done.settle, None)
            child = await Child.start(host, planned, deadline=deadline, name=name, on_exit=ended)
        except TimeoutError:
            raise HookTimeoutError("it was not started in time", hook=name) from None
        pipe = LinePipe(host.reactor, child.stdout, child.stdin, received, lambda: None, tap=host.tap, name=name)
        try:
            if feed():
                pipe.when_writable(feed)
            await done.wait(deadline)
            pipe.drain(most)
        except TimeoutError:
            raise HookTimeoutError("it did not end in time, and was killed", hook=name) from None
        finally:
            await child.stop([])
            pipe.close()
        if overflowed:
            raise HookCrashedError(f"it wrote more than {most} bytes, and was killed", hook=name)
        return FinishedProcess(child.exit_code or 0, bytes(output), child.stderr_tail)
