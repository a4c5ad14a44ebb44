"""`picohook audit`: whether an audit log is as it was written."""

import contextlib
import itertools
import os
from pathlib import Path
from typing import Annotated

import typer

from ..config.audit_logs import KEY
from ..errors import PicohookError
from ..listeners.ledger import files_of, lines_of, verify as verify_chain
from ..wire.regular_files import open_regular
from . import output
from .source import Json, require_file
from .usage import App

app = App(no_args_is_help=True, help="Look at an audit log.")


@app.callback()
def _audit() -> None:
    """Look at an audit log."""  # so that `verify` is named, though it is the only one


@app.command()
def verify(
    log: Annotated[Path, typer.Argument(metavar="FILE", help="The log.", show_default=False)],
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HASH", help="The hash of a record, kept elsewhere: it has to be there.", show_default=False
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="The hash of the record before the first one, where older files were taken away.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find a record that was changed, removed, put in or moved.

    A log that was rotated is looked at from its first file on: FILE is the newest one, and the others are beside it.

    That the end is missing shows only with --head, the hash that was the last one at some time. The key of a keyed log is
    taken from the variable PICOHOOK_AUDIT_KEY. Exits with 1 if the log does not hold.
    """
    try:
        files = files_of(require_file(log))
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(open(open_regular(file)[0], "rb")) for file in files]
            lines = itertools.chain.from_iterable(map(lines_of, opened))
            key = os.environ.get(KEY, "").encode()
            found = verify_chain(lines, key, head=head and head.lower(), after=after and after.lower())
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
            output.line(f"{log}: ok, {found.records} record{'' if found.records == 1 else 's'}{across}{head}")
        else:
            output.error(f"{log}: {found.problem}")
    if not found.ok:
        raise typer.Exit(1)
