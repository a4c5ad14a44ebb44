"""`picohook approvals` shows what waits for a person, and answers it. `picohook grants` shows what was approved in advance."""

import contextlib
import ipaddress
import json
import os
import pwd
import select
import socket
import sys
import termios
import time
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from typer import Argument, Option

from ...cli import live, output
from ...cli.command import App, Json
from ...errors import PicohookError
from ...wire.extras import needs
from .grants import Grant
from .grants_store import GrantStore
from .plain import plain
from .queue import Answer, Queue, Waiting
from .view import View, view

app = App(invoke_without_command=True, subcommand_metavar="COMMAND [ARGS]...")
grants_app = App(invoke_without_command=True)

LOOK = 0.2
"""Seconds between two looks at the queue."""
MOST_LISTED, MOST_IN_ROW = 100, 100
"""The most calls in a list, and the most characters of a call in it. JSON output has all."""
STYLES = {"+": "green", "-": "red", "@": "cyan"}
HELP = "y: yes   n: no   n REASON: no, and the model is told why   s: skip it   q: quit"
Id = Annotated[str, Argument(metavar="ID", help="The call's id.")]


@app.callback()
def approvals(
    context: typer.Context,
    *,
    watch: Annotated[bool, Option("--watch", help="Wait for further calls, until q is typed.")] = False,
    as_json: Json = False,
    web: Annotated[bool, Option("--web", help="Show the queue as a page, on this machine.")] = False,
    bind: Annotated[str, Option(metavar="ADDRESS", help="The page's address; others need TLS.")] = "127.0.0.1",
    port: Annotated[int, Option(metavar="NUMBER", min=0, max=65535, help="The page's port; 0 is any.")] = 0,
    certificate: Annotated[str, Option(metavar="FILE", help="A certificate, for TLS.")] = "",
    key: Annotated[str, Option(metavar="FILE", help="The certificate's key.")] = "",
    url: Annotated[str, Option(metavar="URL", help="The page's address for others.")] = "",
) -> None:
    """Show what waits for a person, and answer it.

    Without a command, asks about one call after another in the terminal. Elsewhere, it lists them. With --web it serves a page.
    """
    if context.invoked_subcommand is not None:
        return
    if web:
        _serve(bind, port, url=url, certificate=certificate, key=key)
        return
    with contextlib.closing(Queue()) as queue, contextlib.suppress(KeyboardInterrupt):
        if as_json:
            _print(queue, watch=watch)
        elif sys.stdin.isatty() and sys.stdout.isatty():
            _work_through(queue, watch=watch)
        else:
            _list(queue)
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
    if yes is None:
        raise typer.BadParameter("say --yes or --no")
    if yes and reason:
        raise typer.BadParameter("a reason is for --no: the model is told it")
    given = None if grant is None else _grant(grant)
    if given is not None and not yes:
        raise typer.BadParameter("a grant is for --yes")
    with contextlib.closing(Queue()) as queue:
        queue.answer(call, Answer(yes, reason, f"the command line, by {_user()}", given))
    output.line(f"{call}: {'yes' if yes else 'no'}")


def _grant(text: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        if isinstance(grant := json.loads(text), dict):
            return grant
    raise typer.BadParameter('--grant is a JSON object, such as \'{"for": "session"}\'')


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


def _serve(bind: str, port: int, *, url: str, certificate: str, key: str) -> None:
    """Serve the page. Elsewhere than on loopback, that needs TLS."""
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        raise typer.BadParameter(f"--bind takes an address of this machine, not {bind}") from None
    if not address.is_loopback and not (certificate and key):
        raise typer.BadParameter("a page for other machines needs --certificate and --key, for TLS")
    scheme, netloc = urlsplit(url)[:2]
    if (url or address.is_unspecified) and not (scheme in {"http", "https"} and netloc):
        raise typer.BadParameter("say --url https://NAME:PORT/, by which others reach the page")
    try:
        from .page import serve
    except ImportError as error:
        raise PicohookError(needs("--web", str(error.name), "web")) from None
    live.begin(plain=True)  # a signal lets the program clean up
    try:
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004 - IPv6
        with socket.create_server((bind, port), family=family) as bound:
            serve(bound, output.verbatim, url=url, certificate=certificate, key=key)
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
        for one in waiting:
            if one.id not in shown:
                output.data(one.wire())
        if not watch:
            return
        shown = {one.id for one in waiting}
        while version == queue.version():
            time.sleep(LOOK)
            queue.remove_dead()


def _list(queue: Queue) -> None:
    queue.remove_dead()
    rows = []
    for one in queue.waiting(MOST_LISTED):
        seen = view(one, judged=False)
        arguments = ", ".join(f"{name}: {text}" for name, text in seen.arguments)
        rows.append((one.id, seen.tool, " ".join(arguments.split())[:MOST_IN_ROW], dict(seen.facts)["time left"]))
    if rows:
        output.table(("id", "tool", "arguments", "time left"), rows)
    left = queue.count() - len(rows)
    output.line(f"and {left} more" if left > 0 and rows else "" if rows else "no call waits")


def _work_through(queue: Queue, *, watch: bool) -> None:
    """Ask about one call after another, the oldest first. A call that was skipped is not asked about again."""
    skipped: set[str] = set()
    while True:
        if (one := _next(queue, skipped)) is None:
            output.line("no call waits" if not skipped else "no other call waits")
            if not watch or _typed(lambda: _next(queue, skipped) is not None, "\a") in {"q", ""}:
                return
            continue
        _show(seen := view(one))
        more = queue.count() - 1
        output.line(f"{more} more in the queue. {HELP}" if more else HELP, style="dim")
        # What was typed before the question is no answer to it.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        sys.stdout.write("> ")
        sys.stdout.flush()
        said = _typed(lambda waiting=one: not queue.find(waiting.id).is_waiting, "\n")  # type: ignore[misc]
        if said is None:
            output.line(queue.find(one.id).end)
            continue
        word, _, rest = said.partition(" ")
        if said == "q":
            return
        offers = dict(enumerate((grant for _, grant in seen.offers), 1))
        yes, grant = word in {"y", "yes"}, offers.get(int(rest)) if rest.isdecimal() else None
        if word in {"n", "no"} or (yes and (grant or not rest)):
            try:
                queue.answer(one.id, Answer(yes, "" if yes else rest.strip(), _terminal(), grant if yes else None))
            except PicohookError as error:
                output.error(str(error))
        elif said == "s":
            skipped.add(one.id)
        else:
            output.line(f"not understood: {said}")


def _next(queue: Queue, skipped: set[str]) -> Waiting | None:
    queue.remove_dead()
    return next((one for one in queue.waiting(1 + len(skipped)) if one.id not in skipped), None)


def _typed(is_over: Callable[[], bool], sign: str) -> str | None:
    """Returns the line that the person types, `q` at the end of the input; None if it is over before, and shows the sign."""
    while not select.select([sys.stdin], (), (), LOOK)[0]:
        if is_over():
            sys.stdout.write(sign)
            sys.stdout.flush()
            return None
    line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
    return line.strip() if line else "q"


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


def _terminal() -> str:
    return f"the terminal {os.path.basename(os.ttyname(0))}, by {_user()}"


# Grants.


@grants_app.callback()
def grants(context: typer.Context, as_json: Json = False) -> None:
    """List grants of approvers, and revoke them.

    Hosts see a change at their next call.
    """
    if context.invoked_subcommand is None:
        found = _grants()
        if as_json:
            output.data([grant.wire() for grant in found])
        elif not found:
            output.line("No grant holds.")
        for grant in () if as_json else found:
            output.line(f"{grant.id}  for this {grant.scope}, {_ends(grant)}: {plain(grant.shown)}")


@grants_app.command("show")
def show_grant(grant_id: Annotated[str, Argument(metavar="ID", help="The grant.")], as_json: Json = False) -> None:
    """Show all about one grant."""
    grant = next((one for one in _grants() if one.id == grant_id), None)
    if grant is None:
        raise PicohookError(f"no grant {grant_id} holds: see picohook grants")
    if as_json:
        output.data(grant.wire())
    else:
        output.pairs(
            [
                (name, plain(value) if isinstance(value, str) else json.dumps(value))
                for name, value in grant.wire().items()
            ]
        )


@grants_app.command()
def revoke(
    ids: Annotated[list[str] | None, Argument(metavar="ID...", help="The grants.")] = None,
    every: Annotated[bool, Option("--all", help="Revoke all grants.")] = False,
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


def _grants() -> list[Grant]:
    with contextlib.closing(GrantStore()) as store:
        return store.all()


def _ends(grant: Grant) -> str:
    left = "" if grant.left is None else f"{grant.left} more, "
    return f"{left}until {time.strftime('%Y-%m-%d %H:%M', time.localtime(grant.until))}"
