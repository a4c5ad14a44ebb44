"""`picohook grants`: the calls that approvers have approved in advance."""

import contextlib
import json
import time
from typing import Annotated

import typer

from ...cli import output
from ...cli.command import App, Json
from ...errors import PicohookError
from .grants import Grant
from .grants_store import GrantStore

app = App(invoke_without_command=True)


@app.callback()
def grants(context: typer.Context, as_json: Json = False) -> None:
    """List grants of approvers, and revoke them.

    Hosts see a change at their next call.
    """
    if context.invoked_subcommand is None:
        found = _all()
        if as_json:
            output.data([grant.wire() for grant in found])
        elif not found:
            output.line("No grant holds.")
        for grant in () if as_json else found:
            output.line(f"{grant.id}  for this {grant.scope}, {_ends(grant)}: {grant.shown}")


@app.command()
def show(
    grant_id: Annotated[str, typer.Argument(metavar="ID", help="The grant.", show_default=False)], as_json: Json = False
) -> None:
    """Show all about one grant."""
    grant = next((one for one in _all() if one.id == grant_id), None)
    if grant is None:
        raise PicohookError(f"no grant {grant_id} holds: see picohook grants")
    if as_json:
        output.data(grant.wire())
    else:
        output.pairs(
            [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in grant.wire().items()]
        )


@app.command()
def revoke(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="The grants.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Revoke all grants.")] = False,
) -> None:
    """End grants now. Calls that run already continue."""
    if bool(ids) == every:
        raise PicohookError("name the grants to revoke, or give --all")
    with contextlib.closing(GrantStore()) as store:
        wanted = [grant.id for grant in store.all()] if every else [*(ids or ())]
        ended = store.revoke(wanted)
    output.line(f"revoked {ended} of {len(wanted)}" if wanted else "No grant holds.")
    if ended < len(wanted):
        raise typer.Exit(1)


def _all() -> list[Grant]:
    with contextlib.closing(GrantStore()) as store:
        return store.all()


def _ends(grant: Grant) -> str:
    left = "" if grant.left is None else f"{grant.left} more, "
    return f"{left}until {time.strftime('%Y-%m-%d %H:%M', time.localtime(grant.until))}"
