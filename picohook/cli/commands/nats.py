"""`picohook nats`: the stream of events, and central configurations."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import anyio
import typer

from ...config import Config, bundles, syntax
from ...config.audit_logs import KEY
from ...config.bundles import KeptBundle
from ...config.layers import Layers
from ...config.problems import Problems
from ...errors import ConfigError, NatsError, PicohookError
from ...model.spec import NatsSettings
from ...observe.log import Log
from ...record import sinks
from ...transport.event_loop import current_reactor
from ...transport.nats import bundle as signed, consumer as consumers, streams
from ...transport.nats.connection import NatsConnection
from ...wire.regular_files import read_regular
from .. import output
from ..command import App, Json, Verbose, count, require_file, seconds
from ..configuration import Named, read
from ..host import in_loop

T = TypeVar("T")

app = App(no_args_is_help=True)
CONNECT = 5.0
"""Seconds to wait for the connection."""

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file with the seed.", show_default=False)]
BundleFile = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The signed bundle.", show_default=False)]


@app.callback()
def _nats() -> None:
    """Work with events and central configurations over NATS.

    The connection is that of [nats] in the configuration.
    """


# The server.


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="The tenant.")] = "default",
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="NAME", help="A host; can be given more than once. Default: host.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        list[str] | None,
        typer.Option(
            "--worker",
            metavar="NAME",
            help="A worker; can be given more than once. Default: worker.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="N", parser=count, help="The server's port.")] = 4222,
    *,
    no_tls: Annotated[bool, typer.Option("--no-tls", help="Write no TLS certificates. Needs no openssl.")] = False,
) -> None:
    """Write a server's configuration and keys, for a trial.

    The trial is on one machine. Each host and each worker has its own key, with the least permissions. Only you can read the
    files.
    """
    from ...transport.nats.trial import Trial  # noqa: PLC0415 - the other commands do without

    made = Trial(
        directory, tenant=tenant, hosts=hosts or ["host"], workers=workers or ["worker"], port=port, tls=not no_tls
    )
    made.write()
    for about, command in made.commands():
        output.line(f"# {about}")
        output.line(command)
    output.line("# On servers of your own, an operator makes the same users with nsc, NATS's own tool:")
    *commands, push = made.operator_commands()
    for command in commands:
        output.line(command)
    output.line(
        "# include resolver.conf in each server's configuration in place of accounts, start them, and name one of them here"
    )
    output.line(push)
    output.line('# in the configurations of hosts and workers, write creds = "NAME.creds" in place of nkey')


@app.command()
def create(
    config: Named = None,
    max_age: Annotated[
        float,
        typer.Option("--max-age", metavar="DAYS", parser=seconds(0.01), help="Days after which events are removed."),
    ] = streams.MAX_AGE / 86400,
    max_size: Annotated[
        int, typer.Option("--max-size", metavar="BYTES", parser=count, help="Bytes of the stream.")
    ] = streams.MAX_BYTES,
    replicas: Annotated[
        int, typer.Option("--replicas", metavar="N", parser=count, help="Servers of the cluster that have a copy.")
    ] = 1,
    *,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Make the stream for events and the bucket for bundles.

    If the stream exists, this changes its limits. The user of the connection needs the right to make streams. Hosts and
    consumers do not.
    """
    del verbose
    files = read(config)
    settings = _connection(files)
    events = next((file.events for file in files.configs if file.events is not None), None)
    table = next((file.bundle for file in files.configs if file.bundle is not None), None)
    bucket = table.bucket if table is not None else streams.BUNDLES
    wanted = streams.stream_config(
        settings.tenant,
        events.stream if events is not None else None,
        max_age=max_age * 86400,
        max_bytes=max_size,
        replicas=replicas,
    )

    async def make(connection: NatsConnection) -> tuple[bool, bool]:
        return await connection.run(lambda client: streams.define_all(client, wanted, bucket, replicas=replicas))

    new = _with_connection(settings, make)
    if as_json:
        output.data({"stream": wanted.name, "new_stream": new[0], "bucket": bucket, "new_bucket": new[1]})
    else:
        output.line(f"The stream {wanted.name} {'is new' if new[0] else 'existed, and has these limits now'}.")
        output.line(f"The bucket {bucket} {'is new' if new[1] else 'existed'}.")


# Bundles.


@app.command()
def key(file: KeyFile) -> None:
    """Print the public key of the seed in a file. If there is no file, this makes a key.

    The seed signs bundles. Keep it secret, on a machine of the people who may configure hooks. Hosts do not need it.
    """
    if file.is_symlink() or file.exists():
        output.line(signed.public_key(_text(file)))
        return
    seed, public = signed.new_key()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(seed + "\n")
    except OSError as error:
        raise PicohookError(f"{file} cannot be written: {error.strerror}") from None
    output.note(f"{file} has a new secret seed. Its public key is:")
    output.line(public)


@app.command()
def sign(
    hooks: Annotated[
        Path, typer.Argument(metavar="HOOKS", help="The hooks, as in a configuration file.", show_default=False)
    ],
    seed: Annotated[Path, typer.Option("--key", metavar="FILE", help="The file with the seed.", show_default=False)],
    version: Annotated[
        int,
        typer.Option(
            "--version",
            metavar="N",
            parser=count,
            help="A number higher than the version of every earlier bundle.",
            show_default=False,
        ),
    ],
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="The tenant.")] = "default",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The bundle's name.")] = "default",
) -> None:
    """Print a signed bundle with these hooks.

    \b
    picohook nats sign central.toml --key bundles.seed --version 7 > bundle.json

    The file has a table [hooks.NAME] for each remote hook, and nothing else.
    """  # noqa: D301 - click reads a backspace character, not an escape
    problems = Problems(str(hooks))
    data = _bytes(hooks, signed.MOST)
    document, repeated = syntax.parse(data, hooks.suffix, problems)
    for key_path in repeated:
        problems.add(key_path, "is given twice")
    problems.check()
    text = _text(seed)
    made = signed.sign(document, tenant=tenant, name=name, version=version, seed=text)
    bundles.check(signed.read(made, str(hooks)), hooks)
    output.verbatim(made.decode())


@app.command()
def verify(file: BundleFile, config: Named = None, *, as_json: Json = False) -> None:
    """Check whether hosts would accept a bundle.

    The hosts are those with this configuration. Checks the signature, the tenant, the name, the version, and each hook. Exits
    with 1 if they would not.
    """
    kept, local = _kept(config)
    bundle = _checked(_bytes(file, signed.MOST), str(file), kept, local)
    _show(str(file), bundle, as_json=as_json)


@app.command()
def push(file: BundleFile, config: Named = None, *, as_json: Json = False) -> None:
    """Put a bundle into the bucket. Hosts apply it at once.

    Refuses what `picohook nats verify` refuses, and a bundle that is not newer than the one in the bucket.
    """
    kept, local = _kept(config)
    bundle = _checked(_bytes(file, signed.MOST), str(file), kept, local)
    table = kept.table

    async def put(connection: NatsConnection) -> None:
        data = await connection.run(lambda client: streams.read_bundle(client, table.bucket, table.name))
        if data is not None:
            try:
                there = kept.verify(data, "the bucket")
            except ConfigError as error:
                output.warn(f"{error}: it is replaced")
            else:
                signed.require_newer(bundle, there, str(file))
        await connection.run(lambda client: streams.write_bundle(client, table.bucket, table.name, bundle.data))

    _with_connection(kept.connection, put)
    _show(f"bucket {table.bucket}", bundle, as_json=as_json)


@app.command()
def pull(config: Named = None, *, as_json: Json = False) -> None:
    """Fetch the bundle, verify it and keep it.

    The bundle is that of the bucket. No host has to run.
    """
    kept, local = _kept(config)
    bundle = _fetch(kept, local)
    if bundle is None:
        raise PicohookError(f"the bucket {kept.table.bucket} has no bundle {kept.table.name}")
    kept.keep(bundle)
    _show(str(kept.path), bundle, as_json=as_json)


@app.command()
def show(config: Named = None, *, as_json: Json = False) -> None:
    """Show the bundle that is kept here, and the one in the bucket."""
    kept, local = _kept(config)
    here = kept.read()
    if here is None:
        output.note(f"{kept.path}: no bundle was accepted yet")
    else:
        _show(str(kept.path), here, as_json=as_json)
    try:
        there = _fetch(kept, local)
    except NatsError as error:
        output.warn(str(error))
        return
    if there is None:
        output.note(f"bucket {kept.table.bucket}: has no bundle {kept.table.name}")
    else:
        _show(f"bucket {kept.table.bucket}", there, as_json=as_json)


# Events.


@app.command()
def consume(
    config: Named = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            "--to-audit", metavar="FILE", help="Write the records of all hosts to an audit log.", show_default=False
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            "--to-records",
            metavar="DIR",
            help="Write the recordings that hosts send, for `picohook replay` and `trace`.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The consumer's name. The server remembers its progress under this name. Default: audit, records or lines.",
            show_default=False,
        ),
    ] = None,
    *,
    lines: Annotated[
        bool, typer.Option("--to-lines", help="Print each event as a line of JSON, for another program.")
    ] = False,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when there are no more events.")] = False,
    verbose: Verbose = False,
) -> None:
    """Read the events of the tenant from the stream.

    An event is acknowledged when it is on the disk. A killed consumer continues where it was, and writes no event twice. An
    event that cannot be read stays in the stream as a dead letter. The key of an audit log is read from PICOHOOK_AUDIT_KEY.
    """
    del verbose
    chosen = [kind for kind, given in (("audit", audit), ("records", records), ("lines", lines or None)) if given]
    if len(chosen) != 1:
        raise typer.BadParameter("give one of --to-audit FILE, --to-records DIR and --to-lines")
    files = read(config)
    settings = _connection(files)
    stream = next((file.events.stream for file in files.configs if file.events is not None), None)
    log = Log()
    sink: consumers.Sink = sinks.LineSink(os.dup(1))
    if audit is not None:
        sink = sinks.AuditSink(audit, os.environ.get(KEY, "").encode())
    elif records is not None:
        sink = sinks.RecordSink(records, log)
    durable = consumers.consumer_name(name or chosen[0])

    async def take(connection: NatsConnection) -> consumers.Consumer:
        consumer = consumers.Consumer(connection, sink, log, name=durable, tenant=settings.tenant, stream=stream)
        await consumer.run(until_empty=until_empty)
        return consumer

    try:
        done = _with_connection(settings, take, wait=until_empty)
    finally:
        sink.close()
    output.note(f"{done.taken} events taken, {done.dead} dead letters")


# Shared by the commands.


def _connection(files: Layers) -> NatsSettings:
    for file in files.configs:
        if file.nats is not None:
            return file.nats
    raise PicohookError("the configuration has no connection to NATS: add a table [nats]")


def _kept(named: Path | None) -> tuple[KeptBundle, Config]:
    for file in read(named, with_bundle=False).configs:
        if file.bundle is not None:
            return KeptBundle(file), file
    raise PicohookError("the configuration names no bundle: add a table [nats.bundle]")


def _checked(data: bytes, place: str, kept: KeptBundle, local: Config) -> signed.Bundle:
    """Returns the bundle, if hosts with this configuration would accept it. Raises `ConfigError`."""
    bundle = kept.verify(data, place)
    kept.require_newer(bundle, place)
    bundles.read(bundle, local)
    return bundle


def _fetch(kept: KeptBundle, local: Config) -> signed.Bundle | None:
    table = kept.table

    async def get(connection: NatsConnection) -> bytes | None:
        return await connection.run(lambda client: streams.read_bundle(client, table.bucket, table.name))

    data = _with_connection(kept.connection, get)
    return None if data is None else _checked(data, f"{table.name} in the bucket {table.bucket}", kept, local)


def _show(place: str, bundle: signed.Bundle, *, as_json: bool) -> None:
    hooks = sorted(bundle.config["hooks"])
    if as_json:
        shown = {"version": bundle.version, "hash": bundle.hash, "key": bundle.key, "hooks": hooks}
        output.data({"place": place, "name": bundle.name, "tenant": bundle.tenant, **shown})
    else:
        named = f": {', '.join(hooks)}" if hooks else ""
        output.line(f"{place}: version {bundle.version}, {len(hooks)} hook{'' if len(hooks) == 1 else 's'}{named}")


def _with_connection(settings: NatsSettings, work: Callable[[NatsConnection], Awaitable[T]], *, wait: bool = True) -> T:
    """Return what `work` returns. With `wait`, raises `NatsError` if the server cannot be reached."""

    async def connected() -> T:
        async with _open(settings) as connection:
            if wait and not await connection.connected(CONNECT):
                raise connection.unreachable()
            try:
                return await work(connection)
            except NatsError as error:
                if connection.refused:
                    subjects = ", ".join(sorted(connection.refused))
                    raise PicohookError(f"{error}: this user may not use {subjects}") from None
                raise

    return in_loop(connected)


@contextlib.asynccontextmanager
async def _open(settings: NatsSettings) -> AsyncIterator[NatsConnection]:
    connection = NatsConnection(settings, current_reactor(), Log())
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.aclose()


def _bytes(file: Path, most: int) -> bytes:
    try:
        return read_regular(require_file(file), most)
    except OSError as error:
        raise PicohookError(f"{file} cannot be read: {error.strerror}") from None


def _text(file: Path) -> str:
    return _bytes(file, 4096).decode(errors="replace")
