"""`picohook fleet`: a live view of the hosts and workers of a tenant on NATS."""

import contextlib
import functools
import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from ...errors import NatsError
from ...observe.log import Log
from ...transport.event_loop import current_reactor
from ...transport.nats import subjects
from ...transport.nats.connections import Connections
from ...transport.nats.heartbeat import ENDED, EVERY, SPREAD
from ...wire.text import escape
from .. import fleet as model, live, output, stats
from ..command import App, Json, seconds
from ..configuration import Named, connection_of, read
from ..host import in_loop

if TYPE_CHECKING:
    from rich.console import Group

    from ...model.spec import NatsSettings
    from ...transport.nats.connection import NatsConnection

app = App()

PATIENCE = 5.0
"""Seconds to wait for the connection."""
FIRST = EVERY * (1 + SPREAD) + 0.5
"""Seconds in which every running host reports at least once."""
_DIGEST = 8
"""Letters of the digest of a configuration that are shown."""
_NUMBERS = frozenset({"calls/s", "mean ms", "errors", "in flight"})
_HOSTS = live.Columns(
    ("host", "state", "version", "config", "calls/s", "last denial", "failures", "not ready"),
    _NUMBERS,
    ("version", "not ready", "config"),
)
_WORKERS = live.Columns(
    ("worker of", "state", "id", "version", "config", "calls/s", "mean ms", "errors", "in flight", "failures"),
    _NUMBERS,
    ("version", "id", "in flight", "config", "failures"),
)
_STYLES = {model.OK: "green", model.ALARM: "bold red", model.GONE: "bold red", ENDED: "dim"}


@app.command()
def fleet(
    config: Named = None,
    once: Annotated[bool, typer.Option("--once", help="Print the reports of six seconds, and end.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.1), help="The time between two updates.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Show the hosts and workers of a tenant, live.

    Hosts report every few seconds: version, configuration, calls, failures by cause, and when harmful calls were last denied.
    picohook asks the workers, which are micro services of NATS. A host or worker that stops reporting is shown as gone for ten
    minutes. The connection is that of [nats] in the configuration. Type q to end the view. With --json, prints one line every
    interval.
    """
    settings = connection_of(read(config))
    live.begin(plain=once or as_json)
    in_loop(functools.partial(_run, settings, once=once, interval=interval, as_json=as_json))


async def _run(settings: "NatsSettings", *, once: bool, interval: float, as_json: bool) -> None:
    async with _looks(settings, FIRST if once else interval) as looks:
        if not (once or as_json):
            await _show(looks, ", ".join(settings.servers), interval)
            return
        async for shown in looks:
            try:
                if as_json:
                    output.data(shown)
                else:
                    _print(shown)
            except BrokenPipeError:
                raise typer.Exit(1) from None
            if once:
                return


@contextlib.asynccontextmanager
async def _looks(settings: "NatsSettings", interval: float) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Yield what is known of the fleet, after each interval."""
    connections = Connections(current_reactor(), Log())
    connection = connections.of(settings)
    try:
        if not await connection.connected(PATIENCE):
            raise connection.unreachable()
        async with contextlib.aclosing(_figures(connection, interval)) as looks:
            yield looks
    finally:
        with anyio.CancelScope(shield=True):
            await connections.aclose()


async def _figures(connection: "NatsConnection", interval: float) -> AsyncGenerator[dict[str, Any]]:
    tenant = connection.settings.tenant
    step = interval / 2  # asked twice, so that the first table has rates
    known = model.Fleet(tenant, step)
    inbox = f"{connection.inbox_prefix}.{secrets.token_hex(8)}"

    def heard(message: Any) -> None:
        host = subjects.name_of(message.subject.rpartition(".")[2])  # which only this host may use
        known.heard(host, message.data, time.monotonic())

    def answered(message: Any) -> None:
        known.answered(message.data, time.monotonic())

    await connection.listen(subjects.hosts(tenant), heard)
    await connection.listen(inbox, answered)
    while True:
        for _ in range(2):
            with contextlib.suppress(NatsError):  # the view says that there is no connection
                connection.publish(subjects.service("STATS"), reply=inbox)
            await anyio.sleep(step)
        yield {"connected": connection.is_connected, **known.figures(time.monotonic())}


async def _show(looks: AsyncIterator[dict[str, Any]], servers: str, interval: float) -> None:
    from rich.console import Group  # noqa: PLC0415 - not where the output is JSON
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with live.keys() as keys, Live(console=output.console(), screen=True, auto_refresh=False) as view:
        view.update(Text(f"waiting for hosts at {servers}   q quits"), refresh=True)
        async with anyio.create_task_group() as tasks:
            if keys is not None:
                tasks.start_soon(_until_q, keys, tasks.cancel_scope)
            async for shown in looks:
                size = view.console.size
                title = f"{servers}   tenant: {shown['tenant']}   every {interval:g} s   q quits"
                if not shown["connected"]:
                    title = f"DISCONNECTED   {title}"
                lines = [
                    Text(escape(line), style="bold red", no_wrap=True, overflow="ellipsis")
                    for line in model.alarms(shown)
                ]
                room = (size.height - 6 - len(lines[:3])) // 2
                hosts, workers = _tables(shown, size.width, room)
                view.update(
                    Group(Text(title, style="bold", no_wrap=True), *lines[:3], Text(), hosts, Text(), workers),
                    refresh=True,
                )


async def _until_q(keys: int, scope: anyio.CancelScope) -> None:
    while typed := (await _readable(keys)):
        if b"q" in typed.lower():
            scope.cancel()


async def _readable(keys: int) -> bytes:
    await anyio.wait_readable(keys)
    return os.read(keys, 1024)


def _print(shown: Mapping[str, Any]) -> None:
    for table in _tables(shown):
        output.show(table)
        output.line()
    for line in model.alarms(shown):
        output.line(line, style="bold red")


def _tables(shown: Mapping[str, Any], width: int | None = None, height: int | None = None) -> list[Any]:
    """Return the hosts and the workers as tables. Those with problems come first."""
    return [
        _table(_HOSTS, [_host_row(host) for host in shown["hosts"]], width, height),
        _table(_WORKERS, [_worker_row(worker) for worker in shown["workers"]], width, height),
    ]


def _table(columns: live.Columns, rows: list[dict[str, str]], width: int | None, height: int | None) -> "Group | Any":
    rows.sort(key=lambda row: row["state"] == model.OK)
    return live.table(columns, rows, _style, width, height)


def _style(column: str, row: live.Row) -> str:
    return _STYLES.get(row["state"], "") if column == "state" else ""


def _host_row(host: Mapping[str, Any]) -> dict[str, str]:
    proof = host["proof_of_life"]
    age = None if proof is None else proof["last_denial_age"]
    denied = "-" if proof is None else "never" if age is None else f"{stats.ago(age)} ago"
    return {
        "host": host["host"],
        "last denial": denied,
        "not ready": ", ".join(f"{name} {state}" for name, state in host["not_ready"].items()),
        **_common(host),
    }


def _worker_row(worker: Mapping[str, Any]) -> dict[str, str]:
    mean, in_flight = worker["mean_ms"], worker["in_flight"]
    return {
        "worker of": worker["hook"],
        "id": worker["id"],
        "mean ms": "-" if mean is None else f"{mean:.1f}",
        "errors": str(worker["errors"]),
        "in flight": "-" if in_flight is None else str(in_flight),
        **_common(worker),
    }


def _common(member: Mapping[str, Any]) -> dict[str, str]:
    rate = member["calls_per_second"]
    return {
        "state": member["state"],
        "version": member["version"] or "-",
        "config": (member["config"] or "-")[:_DIGEST],
        "calls/s": "-" if rate is None else f"{rate:.1f}",
        "failures": ", ".join(f"{count} {cause}" for cause, count in member["failures"].items()),
    }
