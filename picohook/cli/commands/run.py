"""`picohook run`: ask hooks the questions of a script, line by line."""

import os
import stat
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

import anyio
import typer

from ...engine.status import HostStatus
from ...errors import ConfigError, PicohookError
from ...host import Host
from ...protocol.lines import LineBuffer
from ...wire import words
from .. import outcomes, output, params as given, stats
from ..command import KEYWORDS, App, Json, Verbose, reads_files, starts_hooks
from ..configuration import Named, configured
from ..host import with_hooks
from ..log import held

app = App()


@app.command()
@reads_files
@starts_hooks
def run(
    context: typer.Context,
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A file of JSON lines, or - for standard input.")],
    *,
    config: Named = None,
    with_stats: Annotated[
        bool, typer.Option("--stats", help="At the end, show counts and times of each hook and stage.")
    ] = False,
    as_json: Json = False,
    _verbose: Verbose = False,
) -> None:
    """Run a script of stages and events, line by line.

    Each line of the script asks the hooks of a stage, or tells hooks of an event. Blank lines are skipped:

    \b
    {"stage": "before_tool", "params": {"tool": "bash", "arguments": {"command": "ls"}}}
    {"event": "tool_exec_start", "payload": {"Tool": "bash"}, "meta": {"TurnID": "t1"}}

    After a wrong line the others still run. The number of a wrong line is shown, and the exit code is 1.
    """  # noqa: D301 - click reads a backspace character, not an escape
    descriptor = given.open_source(script)
    work = partial(_run, descriptor, script, as_json)
    good, status = with_hooks(configured(config), work, **KEYWORDS)
    context.obj = status  # for options of extensions
    if with_stats:
        if as_json:
            output.data({"stats": status.wire()})
        else:
            stats.show(status)
    if not good:
        raise typer.Exit(1)


async def _run(descriptor: int, name: str, as_json: bool, host: Host) -> tuple[bool, HostStatus]:
    """Run the lines. Returns whether all of them were good, and the host's status at the end."""
    number, good = 0, True
    async for line in _lines(descriptor):
        number += 1
        if not line.strip():
            continue
        try:
            wanted = given.script_line(line, number)
        except ConfigError as error:
            good = False
            for problem in error.problems:
                output.error(f"{name}: {problem}")
            if as_json:
                output.data({"line": number, "error": given.complaint(error)})
        else:
            await _do(host, wanted, number, as_json)
    status = host.status()
    for hook in status.hooks:
        if hook.dropped_events:
            output.warn(f"{hook.name}: {hook.dropped_events} events did not reach it")
    return good, status


async def _do(host: Host, wanted: given.Ask | given.Tell, number: int, as_json: bool) -> None:
    if isinstance(wanted, given.Tell):
        await host.emit_and_wait(wanted.event, wanted.payload, meta=wanted.meta)
        if as_json:
            output.data({"line": number, "event": wanted.event})
        else:
            output.line(f"line {number}: {wanted.event}")
        return
    with held() as shown:
        outcome = await getattr(host, wanted.stage.name)(wanted.payload)
        shown.extend(outcomes.causes(outcome))
    if as_json:
        output.data({"line": number, **outcome.wire()})
    else:
        outcomes.show(outcome, wanted.payload, title=f"line {number}: ")
        output.line()


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """Yields the lines of a file, a pipe or a terminal, each as soon as it can be read. The last one may lack its newline."""
    mode = os.fstat(descriptor).st_mode
    may_wait = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
    buffer = LineBuffer(words.MAX_LINE)
    while True:
        if may_wait:
            await anyio.wait_readable(descriptor)
        data = os.read(descriptor, 1 << 16)
        if not data and not buffer.pending:
            return
        for line in buffer.feed(data or b"\n"):
            yield line
        if buffer.too_long:
            raise PicohookError(f"the script has a line of more than {words.MAX_LINE >> 20} MiB")
