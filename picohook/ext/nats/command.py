"""`picohook worker`: serves hooks over NATS, to hosts on other machines."""

import asyncio
import contextlib
import functools
import signal
import sys
from typing import Annotated

import anyio
import typer

from ...cli import output
from ...cli.command import KEYWORDS, App, Verbose, starts_hooks
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
            min=1,
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
    log = Log()

    def follow() -> None:
        if connection_in(host.reloader.source.layers) != settings:
            log.error("the table [nats] has changed: start a worker with the new one, and then end this one")

    async with host:
        connection = NatsConnection(settings, current_reactor(), log)
        worker = NatsWorker(host, connection, max_in_flight=max_in_flight)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.end)
        host.on_mounted.add(follow)
        reload_at_hangup(host)
        try:
            with garbage_collected_rarely():
                await worker.serve(ready=lambda: output.note(f"Serving over NATS: {', '.join(worker.hooks)}"))
        finally:
            with anyio.CancelScope(shield=True):
                await connection.aclose()
