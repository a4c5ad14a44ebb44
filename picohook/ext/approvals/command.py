"""`picohook approvals` shows what waits for a person, and answers it. `picohook grants` shows what was approved in advance."""

import contextlib
import ipaddress
import json
import os
import pwd
import socket
import sys
import termios
import time
from typing import Annotated

import typer
from typer import Argument, Option

from ...cli import output
from ...cli.command import App, Json, exit_at_signals
from ...errors import PicohookError
from ...wire.extras import needs
from .grants import Grant
from .grants_store import GrantStore
from .queue import Answer, Queue, Waiting
from .view import View, plain, view

app = App(invoke_without_command=True, subcommand_metavar="COMMAND [ARGS]...")
grants_app = App(invoke_without_command=True)

LOOK = 0.2
"""Seconds between two looks at the queue."""
STYLES = {"+": "green", "-": "red", "@": "cyan"}
HELP = "y: yes   n: no   n REASON: no, and the model is told why   s: skip it   q: quit"
Id = Annotated[str, Argument(metavar="ID", help="The call's id.")]


@app.callback()
def approvals(
    context: typer.Context,
    *,
    watch: Annotated[bool, Option("--watch", help="Wait for further calls, until Ctrl-C.")] = False,
    as_json: Json = False,
    web: Annotated[bool, Option("--web", help="Show the queue as a page, on this machine.")] = False,
    bind: Annotated[
        str, Option(metavar="ADDRESS", help="The page's address or name; another than this needs TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(metavar="NUMBER", min=0, max=65535, help="The page's port; 0 is any.")] = 0,
    certificate: Annotated[str, Option(metavar="FILE", help="A certificate, for TLS.")] = "",
    key: Annotated[str, Option(metavar="FILE", help="The certificate's key.")] = "",
) -> None:
    """Show what waits for a person, and answer it.

    Without a command, asks about one call after another in the terminal. Elsewhere, prints each as a line of JSON.
    With --web, serves a page.
    """
    if context.invoked_subcommand is not None:
        return
    if web:
        _serve(bind, port, certificate=certificate, key=key)
        return
    with contextlib.closing(Queue()) as queue, contextlib.suppress(KeyboardInterrupt):
        if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
            _work_through(queue, watch=watch)
        else:
            if not (as_json or queue.count()):
                output.line("no call waits")
            _print(queue, watch=watch)
        return
    raise typer.Exit(130)


@app.command()
def answer(
    call: Id,
    reason: Annotated[str, Argument(metavar="[REASON]", help="With --no: for the model.")] = "",
    yes: Annotated[bool | None, Option("--yes/--no", help="Whether the call may run.")] = None,
    grant: Annotated[
        str | None, Option(metavar="JSON", help="With --yes: the later calls that it is for, too.")
    ] = None,
) -> None:
    """Answer one call. Exits with 1 if the call does not wait for an answer."""
    if yes is None or (reason if yes else grant):
        raise typer.BadParameter("say --yes, with a grant or without, or --no, with a reason or without")
    try:
        given = None if grant is None else dict(json.loads(grant))
    except (ValueError, TypeError):
        raise typer.BadParameter('--grant is a JSON object, such as \'{"for": "session"}\'') from None
    with contextlib.closing(Queue()) as queue:
        queue.answer(call, Answer(yes, reason, f"the command line, by {_user()}", given))
    output.line(f"{call}: {'yes' if yes else 'no'}")


@app.command()
def show(call: Id, as_json: Json = False) -> None:
    """Show one call whole."""
    with contextlib.closing(Queue()) as queue:
        waiting = queue.find(call)
    if as_json:
        output.data(waiting.wire())
        return
    _show(seen := view(waiting))
    if seen.left_out:
        output.verbatim(plain(waiting.call.decode("utf-8", "replace")))


def _serve(bind: str, port: int, *, certificate: str, key: str) -> None:
    """Serve the page. Elsewhere than on loopback, that needs TLS."""
    try:
        from .page import serve
    except ImportError as error:
        raise PicohookError(needs("--web", str(error.name), "web")) from None
    exit_at_signals()
    try:
        family, *_, place = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0]
        address = ipaddress.ip_address(place[0])
        if not address.is_loopback and not (certificate and key):
            raise typer.BadParameter("a page for other machines needs --certificate and --key, for TLS")
        if address.is_unspecified:
            raise typer.BadParameter(f"--bind takes the name or address by which others reach the page, not {bind}")
        with socket.create_server(place[:2], family=family) as bound:
            serve(bound, output.verbatim, name=bind, certificate=certificate, key=key)
    except OSError as error:
        raise PicohookError(f"the page cannot be served at {bind}: {error.strerror or error}") from None


def _print(queue: Queue, *, watch: bool) -> None:
    """Print each call that waits. With `watch`, also those that come later, and the end of each."""
    shown: set[str] = set()
    while True:
        queue.remove_dead()
        version, waiting = queue.version(), queue.waiting()
        for gone in shown - {one.id for one in waiting}:
            with contextlib.suppress(PicohookError):  # it ended long ago, while this program stood still
                output.data(queue.find(gone).wire())
        if new := [json.dumps(one.wire()) for one in waiting if one.id not in shown]:
            output.verbatim("\n".join(new))  # at once, because there may be thousands
        if not watch:
            return
        shown = {one.id for one in waiting}
        while version == queue.version():
            time.sleep(LOOK)
            queue.remove_dead()


def _work_through(queue: Queue, *, watch: bool) -> None:
    """Ask about one call after another, the oldest first. A call that was skipped is not asked about again."""
    skipped: set[str] = set()
    while (one := _next(queue, skipped, watch=watch)) is not None:
        _show(seen := view(one))
        more = queue.count() - 1
        output.line(f"{more} more in the queue. {HELP}" if more else HELP, style="dim")
        # What was typed before the question is no answer to it.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        try:
            said = input("> ").strip()
        except EOFError:
            return
        word, _, rest = said.partition(" ")
        if said == "q":
            return
        offers = dict(enumerate((grant for _, grant in seen.offers), 1))
        yes, grant = word in {"y", "yes"}, offers.get(int(rest)) if rest.isdecimal() else None
        if word in {"n", "no"} or (yes and (grant or not rest)):
            try:
                by = f"the terminal {os.path.basename(os.ttyname(0))}, by {_user()}"
                queue.answer(one.id, Answer(yes, "" if yes else rest.strip(), by, grant if yes else None))
            except PicohookError as error:
                output.error(str(error))
        elif said == "s":
            skipped.add(one.id)
        else:
            output.line(f"not understood: {said}")
    output.line("no call waits" if not skipped else "no other call waits")


def _next(queue: Queue, skipped: set[str], *, watch: bool) -> Waiting | None:
    """The oldest call that was not skipped. With `watch`, waits for one, and rings the bell when it comes."""
    bell = ""
    while True:
        queue.remove_dead()
        found = next((one for one in queue.waiting(1 + len(skipped)) if one.id not in skipped), None)
        if found is not None or not watch:
            sys.stdout.write(bell)
            return found
        if not bell:
            output.line("no call waits")
        bell = "\a"
        time.sleep(LOOK)


def _show(seen: View) -> None:
    output.line()
    output.line(f"{seen.id}  {seen.tool}", style="bold")
    output.pairs(seen.facts)
    for name, text in seen.arguments:
        output.line(f"  {name}:", style="bold")
        for line in text.split("\n"):
            output.line(f"    {line}")
    for sign, line in seen.diff:
        output.line(f"    {line if sign == '@' else f'{sign} {line}'}", style=STYLES.get(sign, ""))
    for number, (text, _) in enumerate(seen.offers, 1):
        output.line(f"  y {number}: yes, {text}")
    if seen.left_out:
        output.line(f"  {seen.left_out} All of it: picohook approvals show {seen.id}", style="bold red")


def _user() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


# Grants.


@grants_app.callback()
def grants(context: typer.Context, as_json: Json = False) -> None:
    """List grants of approvers, and revoke them.

    Hosts see a change at their next call.
    """
    if context.invoked_subcommand is not None:
        return
    found = _grants()
    if as_json:
        output.data([grant.wire() for grant in found])
        return
    lines = [f"{one.id}  for this {one.scope}, {_ends(one)}: {plain(one.shown)}" for one in found]
    output.line("\n".join(lines) or "No grant holds.")


@grants_app.command("show")
def show_grant(grant_id: Annotated[str, Argument(metavar="ID", help="The grant.")]) -> None:
    """Show all about one grant."""
    grant = next((one for one in _grants() if one.id == grant_id), None)
    if grant is None:
        raise PicohookError(f"no grant {grant_id} holds: see picohook grants")
    output.pairs(
        [(name, plain(value if isinstance(value, str) else json.dumps(value))) for name, value in grant.wire().items()]
    )


@grants_app.command()
def revoke(ids: Annotated[list[str], Argument(metavar="ID...", help="The grants.")]) -> None:
    """End grants now. Calls that run already continue."""
    with contextlib.closing(GrantStore()) as store:
        ended = store.revoke(ids)
    output.line(f"revoked {ended} of {len(ids)}")
    if ended < len(ids):
        raise typer.Exit(1)


def _grants() -> list[Grant]:
    with contextlib.closing(GrantStore()) as store:
        return store.all()


def _ends(grant: Grant) -> str:
    left = "" if grant.left is None else f"{grant.left} more, "
    return f"{left}until {time.strftime('%Y-%m-%d %H:%M', time.localtime(grant.until))}"
