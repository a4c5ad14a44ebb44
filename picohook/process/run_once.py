"""Runs a process to its end for one question: writes its input, reads its output, and kills its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import HookCrashedError, HookTimeoutError
from ..transport.pipe import pipe_kind
from .child import Child, SpawnDelayedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..observe.log import Log
    from ..protocol.raw_line import RawLine
    from ..transport.reactor import Reactor
    from .plan import Plan
    from .spawn import Spawner

MAX_OUTPUT = 16 * 1024 * 1024
"""Bytes of output. A process that writes more is killed."""


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """The exit code and the output of a process that has ended."""

    exit_code: int
    stdout: bytes
    stderr_tail: str


async def run_once(
    reactor: Reactor,
    spawner: Spawner,
    plan: Plan,
    stdin: bytes,
    *,
    deadline: float,
    name: str,
    log: Log,
    max_output: int = MAX_OUTPUT,
    tap: Callable[[RawLine], None] | None = None,
) -> FinishedProcess:
    """Run a process to its end. Raises `HookError` if it cannot be started, is late, or writes too much.

    This returns when the process itself ends, even if it has not read its input, or a grandchild holds the pipes open. Then,
    and at the deadline and on cancellation, its whole group is killed.
    """
    done = reactor.waiter()
    output = bytearray()
    rest = memoryview(stdin)
    overflowed = False

    def received(data: bytes) -> None:
        nonlocal overflowed
        output.extend(data)
        if len(output) > max_output and not overflowed:
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
        child = await Child.start(
            reactor, spawner, plan, deadline=deadline, name=name, log=log, on_exit=lambda: done.settle(None)
        )
    except TimeoutError:
        raise HookTimeoutError("it was not started in time", hook=name) from None
    except SpawnDelayedError as error:
        raise HookCrashedError(f"cannot be started now: {error}", hook=name) from None
    pipe = pipe_kind(tap, name)(reactor, child.stdout, child.stdin, on_data=received, on_end=lambda: None)
    try:
        if feed():
            pipe.when_writable(feed)
        await done.wait(deadline)
        pipe.drain(max_output)
    except TimeoutError:
        raise HookTimeoutError("it did not end in time, and was killed", hook=name) from None
    finally:
        await child.stop([])
        pipe.close()
    if overflowed:
        raise HookCrashedError(f"it wrote more than {max_output} bytes, and was killed", hook=name)
    return FinishedProcess(child.exit_code or 0, bytes(output), child.stderr_tail)
