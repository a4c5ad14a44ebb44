"""`picohook probe`: a hook that tests its host."""

import json
from typing import Annotated

import typer

from ...conformance import manifest, probe as probes, report as reports
from ...wire.regular_files import read_regular
from ..command import App, Json, seconds
from ..report import Junit, conclude, require_writable

app = App()
_MOST_REPORT = 16 << 20
"""Bytes of a probe's report."""


@app.command()
def probe(
    path: Annotated[
        str, typer.Argument(metavar="REPORT", envvar="PICOHOOK_PROBE_REPORT", help="The file for the report.")
    ],
    *,
    show: Annotated[bool, typer.Option("--show", help="Show a report that a probe has written.")] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="REPORT",
            help="With --show: add the report of another probe of the same host. Can be given more than once.",
        ),
    ] = None,
    hold: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=seconds(0.01),
            help="How long hooks named probe_mute and probe_deaf misbehave. Default: as vectors/host.json says.",
        ),
    ] = None,
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Test whether a host keeps to the protocol.

    Configure `picohook probe REPORT` as a hook of the host, for all stages and events. Make the host do the tool calls of
    vectors/host.json. When the host has ended, read the report: picohook probe --show REPORT
    """
    if not show:
        for option, value in (("--junit", junit), ("--json", as_json), ("--also", also)):
            if value:
                raise typer.BadParameter(f"{option} needs --show")
        require_writable(path, "REPORT")
        probes.serve(path, hold)
        return
    conclude(reports.merged([_report(one) for one in (path, *(also or ()))]), junit, as_json=as_json)


def _report(path: str) -> reports.Report:
    try:
        return reports.read(json.loads(read_regular(path, _MOST_REPORT)), manifest.load("host"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError):
        raise typer.BadParameter(f"{path} is not a report of a probe") from None
