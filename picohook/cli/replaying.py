"""`picohook replay` and `picohook trace`: what is made of a record."""

from typing import Annotated

import typer

from .listeners import Record
from .source import AsPicoClaw, Json, Named, Verbose

_MAY_BE_IGNORED = ("reason", "feedback", "result", "notes", "payload")


def replay(
    record_file: Annotated[
        str, typer.Argument(metavar="RECORD", help="What --record has written.", show_default=False)
    ],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="A hook, alone.", show_default=False)
    ] = None,
    *,
    config: Named = None,
    picoclaw: AsPicoClaw = None,
    hook: Annotated[
        str | None,
        typer.Option(
            "--hook",
            metavar="NAME",
            help="With a COMMAND: whose questions it is asked; needed where the record has several hooks.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help=f"No difference: {', '.join(_MAY_BE_IGNORED)}. Can be given more than once."),
    ] = None,
    record: Record = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask again what a record says was asked, and compare.

    \b
    picohook replay session.jsonl --config picohook.toml
    picohook replay session.jsonl --hook guard -- node guard.mjs

    Shows which decisions have changed. Every chain is asked of the configuration's hooks; or, of one hook, every question of
    its COMMAND. One after another, in the order of the record, events included. Exits with 0 if all decisions are the same,
    and with 1 if one is not.
    """  # noqa: D301 - click wants this character, and not its name
    del verbose
    for name in ignore or ():
        if name not in _MAY_BE_IGNORED:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(_MAY_BE_IGNORED)}", param_hint="--ignore")
    if command and config is not None:
        raise typer.BadParameter("give a --config, or a COMMAND")
    if hook is not None and not command:
        raise typer.BadParameter("--hook goes with a COMMAND: what a hook was asked is asked of that")
    from .replays import Tally, run  # noqa: PLC0415 - most commands read no record

    tally = Tally(ignore or [], as_json)
    run(record_file, tally, command=command, hook=hook, config=config, picoclaw=picoclaw, record=record)


def trace(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="What --record has written, or - for standard input.", show_default=False
        ),
    ],
    as_json: Json = False,
) -> None:
    """Show a record as a timeline.

    Who was asked what, decided what, and how long that took.
    """
    from .timeline import show  # noqa: PLC0415 - most commands read no record

    show(record, as_json=as_json)
