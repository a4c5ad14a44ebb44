"""`picohook worker`: serves hooks over NATS, to hosts on other machines."""

import asyncio
import contextlib
import functools
import signal
import sys
from typing import Annotated

import anyio
import anyio.abc
import typer

from ...cli import output
from ...cli.command import KEYWORDS, App, Verbose, count, starts_hooks
from ...cli.configuration import Named, read
from ...cli.host import garbage_collected_rarely, has_uvloop, host_of, reload_at_hangup
from ...errors import PicohookError
from ...host import Host
from ...observe.log import Log
from ...transport.event_loop import current_reactor
from .connection import NatsConnection
from .settings import NatsSettings, connection_in
from .worker import MAX_IN_FLIGHT, NatsWorker

app = App()


@app.command()
@starts_hooks
def worker(
    config: Named = None,
    max_in_flight: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=count,
            help="The most questions at the same time. It refuses others at once, and another worker gets them.",
        ),
    ] = MAX_IN_FLIGHT,
    watch: Annotated[
        bool, typer.Option("--watch", help="Reload the configuration when it changes. SIGHUP reloads it in any case.")
    ] = False,
    *,
    _verbose: Verbose = False,
) -> None:
    """Serve hooks over NATS, to hosts on other machines.

    \b
    picohook worker --config picohook.toml

    Serves each hook of the configuration that is asked at stages, at the servers that its table [nats] names. Workers with the
    same hook share its questions. At SIGTERM it accepts no more questions, answers those that it has, and ends.
    """  # noqa: D301 - click reads a backspace character, not an escape
    found = read(config)
    settings = connection_in(found)
    if settings is None:
        files = ", ".join(str(one.path) for one in found.configs)
        raise PicohookError(f'{files}: has no table [nats] (such as: servers = ["nats://127.0.0.1:4222"])')
    with contextlib.redirect_stdout(sys.stderr):  # hooks in this process may print
        # It serves hooks, and guards no agent.
        host = host_of(config, watch=watch, _system=False, **KEYWORDS)
        work = functools.partial(_serve, host, settings, max_in_flight)
        anyio.run(work, backend_options={"use_uvloop": has_uvloop()})


async def _serve(host: Host, settings: NatsSettings, max_in_flight: int) -> None:
    async with host:
        connection = _connect(settings)
        async with anyio.create_task_group() as tasks:
            serving = _Serving(host, connection, max_in_flight, tasks)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, serving.end)
            reload_at_hangup(host)
            with garbage_collected_rarely():
                await serving.ended.wait()


class _Serving:
    """Serves at the servers that the configuration names. A reload may change the servers.

    It continues at the old ones until it is ready at the new ones, so each question finds a worker.
    """

    def __init__(self, host: Host, connection: NatsConnection, max_in_flight: int, tasks: anyio.abc.TaskGroup) -> None:
        self.ended = anyio.Event()
        self._host = host
        self._settings = connection.settings
        self._max_in_flight = max_in_flight
        self._tasks = tasks
        self._workers: list[NatsWorker] = []
        self._log = Log()
        tasks.start_soon(self._serve, connection)
        host.on_mounted.add(self.follow)

    def end(self) -> None:
        self.ended.set()
        for worker in self._workers:
            worker.end()

    def follow(self) -> None:
        settings = connection_in(self._host.reloader.source.layers)
        if settings is None:
            self._log.error("the table [nats] is gone: the worker stays where it is", servers=self._settings.servers)
        elif settings != self._settings and not self.ended.is_set():
            self._settings = settings
            self._tasks.start_soon(self._serve, _connect(settings))

    async def _serve(self, connection: NatsConnection) -> None:
        worker = NatsWorker(self._host, connection, max_in_flight=self._max_in_flight)
        self._workers.append(worker)
        if self.ended.is_set():
            worker.end()
        try:
            await worker.serve(ready=functools.partial(self._take_over, worker))
        finally:
            self._workers.remove(worker)
            with anyio.CancelScope(shield=True):
                await connection.aclose()

    def _take_over(self, worker: NatsWorker) -> None:
        for earlier in self._workers[: self._workers.index(worker)]:
            earlier.end()
        output.note(f"Serving over NATS: {', '.join(worker.hooks)}")


def _connect(settings: NatsSettings) -> NatsConnection:
    return NatsConnection(settings, current_reactor(), Log())
