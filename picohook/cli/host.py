"""Runs hooks in a command, until its work is done or a signal ends it."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import anyio
import typer

from ..errors import PicohookError
from ..host import Host
from ..projects.layers import Layers

T = TypeVar("T")

OBJECTS_BEFORE_COLLECTION = 10_000
"""The number of new objects before the collector runs, in a program that serves many calls. Python's is 700."""
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def with_hooks(
    config: Layers,
    work: Callable[[Host], Awaitable[T]],
    *,
    faster: bool = False,
    **keywords: Any,
) -> T:
    """Start the hooks. Returns what `work` returns. A signal that ends the program stops the hooks first.

    `faster` is that of `in_loop`, `keywords` are those of `Host` that extensions have.
    """

    async def serve() -> T:
        async with Host(
            config.hooks,
            timeouts=config.timeouts,
            verify=config.verify,
            _tables=config.tables,
            **keywords,
        ) as host:
            return await work(host)

    return in_loop(serve, faster=faster)


def in_loop(work: Callable[[], Awaitable[T]], *, faster: bool = False) -> T:
    """Returns what `work` returns, run in an event loop. A signal that ends the program cancels it first.

    `faster` uses uvloop if it is installed. Loading it pays only for a program that runs for long.
    """
    with contextlib.redirect_stdout(sys.stderr):  # hooks in this process may print
        return anyio.run(_until_signalled, work, backend_options={"use_uvloop": faster and has_uvloop()})


def has_uvloop() -> bool:
    """Returns whether uvloop is installed."""
    return find_spec("uvloop") is not None


async def _until_signalled(work: Callable[[], Awaitable[T]]) -> T:
    with ended_by_signals():
        done = await work()
    return done  # noqa: RET504 - for type checkers, the block may end without a return


def host_of(config: Path | None, **settings: Any) -> Host:
    """Returns the host with the hooks of this configuration, or of those that are found. It can be reloaded."""
    return Host.discover(**settings) if config is None else Host.from_config(config, **settings)


def own_streams() -> tuple[int, int]:
    """Reserve standard input and output for a protocol. Other code in this process reads nothing, and writes to stderr.

    Returns the descriptors. Raises `PicohookError` if a standard stream is closed.
    """
    if None in (sys.__stdin__, sys.__stdout__, sys.__stderr__):  # their descriptors may belong to another file by now
        raise PicohookError("standard input, output or error is closed: there is no client to serve")
    streams = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return streams


@contextlib.contextmanager
def garbage_collected_rarely() -> Iterator[None]:
    """Collect garbage more rarely in this block, and leave alone what exists already.

    Many calls at the same time have thousands of objects, none of them garbage. The collector would look at all of them after
    every few calls.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """On a signal that ends the program, cancel this block and raise `typer.Exit`."""
    received: list[int] = []
    with anyio.CancelScope() as scope:

        def end(number: int) -> None:
            received.append(number)
            scope.cancel()

        on_endings(end)
        yield
        return
    raise typer.Exit(128 + received[0])


def reload_at_hangup(host: Host) -> None:
    """At SIGHUP, reload the configuration of this running host. Its mistakes are logged."""

    async def reload() -> None:
        with contextlib.suppress(PicohookError):
            await host.reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, host.begin_task, reload)


def on_endings(end: Callable[[int], None]) -> None:
    """Call `end` with the number of every signal that would end the program."""
    for number in _ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup, or in a script's background
            asyncio.get_running_loop().add_signal_handler(number, end, number)
