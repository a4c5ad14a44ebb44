"""`picohook audit`: check an audit log."""

from pathlib import Path
from typing import Annotated

import typer

from ...cli import output
from ...cli.command import App, Json, require_file
from ...errors import PicohookError
from ...journal.ledger import files_of, lines_of, verify as verify_chain
from ...process.environment import key_of
from .log import KEY

app = App(no_args_is_help=True)


@app.callback()
def _audit() -> None:
    """Check an audit log."""  # this callback makes it a group, though `verify` is its only command


@app.command()
def verify(
    log: Annotated[Path, typer.Argument(metavar="FILE", help="The log.")],
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="The hash of a record, kept elsewhere. Fails if no record has it."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="HASH", help="The hash of the record before the first one, if older files were moved away."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find records that were changed, removed, added or moved.

    A rotated log is checked from its oldest file on: FILE is the newest one, and the others are beside it.

    Only --head shows that the end of the log is missing: give the hash of a record that was once the last one. If the log has
    a key, it is read from PICOHOOK_AUDIT_KEY. Exits with 1 if a record is wrong.
    """
    try:
        files, key = files_of(require_file(log)), key_of(KEY).encode()
        found = verify_chain(lines_of(files), key, head=head and head.lower(), after=after and after.lower())
    except OSError as error:
        raise PicohookError(f"{log} cannot be read: {error.strerror}") from None
    if as_json:
        shown = {"records": found.records, "head": found.head, "problem": found.problem, "notes": list(found.notes)}
        output.data({"file": str(log), "ok": found.ok, **shown, "files": files})
    else:
        for note in found.notes:
            output.warn(f"{log}: {note}")
        if found.problem is None:
            head = f", head {found.head}" if found.records else ""
            across = f" in {len(files)} files" if len(files) > 1 else ""
            output.line(f"{log}: ok, {output.many(found.records, 'record')}{across}{head}")
        else:
            output.error(f"{log}: {found.problem}")
    if not found.ok:
        raise typer.Exit(1)
