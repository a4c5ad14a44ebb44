"""`picohook drill`: prove that an installed agent asks your hooks."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from ...cli import output
from ...cli.command import App, Json, exit_at_signals, require_known
from ...cli.doctor.findings import Finding, Level
from ...contain import landlock_program
from ...errors import PicohookError
from ...projects.layers import Layers
from ..vendors.dialects import vendor_named
from .agents import AGENTS
from .settings import directory_of, handlers, read
from .ways import WAYS, Drill

app = App()
_TRIAL = "import runpy, sys; runpy.run_path(sys.argv[1])['leave_the_network']()"


@app.command()
def drill(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help=f"The agent: {', '.join(AGENTS)}.")],
    *,
    here: Annotated[
        bool, typer.Option("--here", help="Work in this directory. Default: a throw-away project.")
    ] = False,
    ways: Annotated[
        list[str] | None, typer.Option("--way", metavar="WAY", help=f"Try only this way: {', '.join(WAYS)}.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove that an installed agent asks your hooks.

    Starts the agent with a copy of its settings and a model of this machine, and lets it make harmless calls along each way to
    run something. Nothing leaves the machine. --way can be given more than once. Exits with 1 if a call ran past your hooks.
    """
    if agent == "cursor":
        raise typer.BadParameter("Cursor cannot be driven: its program asks only its vendor's models")
    require_known([agent], AGENTS, "AGENT")
    require_known(ways or (), WAYS, "--way")
    found = shutil.which(agent)
    if found is None:
        raise PicohookError(f"there is no program {agent} on the PATH: install it, or put its directory there")
    exit_at_signals()
    cache = platformdirs.user_cache_path("picohook", ensure_exists=True)
    with tempfile.TemporaryDirectory(dir=cache) as place, tempfile.TemporaryDirectory() as sockets:
        made = Drill(AGENTS[agent], found, Path(place), Path(sockets), Path.cwd() if here else None)
        ok = _drive(made, ways or [*WAYS], as_json=as_json)
    raise typer.Exit(int(not ok))


def _drive(made: Drill, names: list[str], *, as_json: bool) -> bool:
    """Try these ways, and print what came of them. Returns whether they are guarded, as far as they can be."""
    offline = _is_offline()
    title, version = vendor_named(made.agent.name).agent, made.version()
    if not offline:
        made.note("this system gives no network namespace: the agent was only told to use no network")
    if version not in made.agent.tried:
        known = ", ".join(made.agent.tried)
        made.note(f"this version is not known: {version or 'it says none'}; its agent was tried as {known}")
    if not as_json:
        output.line(f"{title} {version}, {made.program}")
    ways = []
    for name in names:
        ways.append(way := made.along(name))
        if not as_json:
            known = f"; no hook can guard it: {way.known}" if way.known else ""
            output.line(f"  {way.verdict:<12}  {WAYS[name]['title']:<44}  {way.seen}{known}")
    failed = [way.name for way in ways if way.fails]
    ok = not failed and any(way.verdict == "guarded" for way in ways)
    if as_json:
        about = {"agent": made.agent.name, "title": title, "version": version, "program": made.program}
        shown = [{"title": WAYS[way.name]["title"], "fails": way.fails, **asdict(way)} for way in ways]
        output.data({"ok": ok, **about, "offline": offline, "ways": shown, "notes": made.notes})
        return ok
    for note in made.notes:
        output.line(f"Note: {note}")
    proven = "no call ran past your hooks that they can guard" if ok else "nothing is proven: no way is guarded"
    output.line(f"unguarded: {', '.join(failed)}" if failed else proven)
    return ok


def _is_offline() -> bool:
    """Leave the network, for this process and what it starts. Returns whether the system lets it.

    Another process tries it first: a failure in the middle would leave this one without a user.
    """
    command = [sys.executable, "-I", "-S", "-c", _TRIAL, landlock_program.__file__]
    if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:  # noqa: S603 - the interpreter
        return False
    landlock_program.leave_the_network()
    return True


async def offer(_: Layers) -> AsyncIterator[Finding]:
    """Offers a drill of each installed agent whose own settings have a hook that is asked before a tool."""
    for agent in filter(lambda agent: shutil.which(agent.name), AGENTS.values()):
        where = directory_of(agent)
        files = (path for pattern in agent.files for path in where.glob(pattern))
        try:
            asked = any([*handlers(agent, read(path))] for path in files)
        except PicohookError:
            continue  # the examination of files says so
        if asked:
            message = f"nothing has shown that it asks the hooks in {where}"
            yield Finding(Level.NOTE, vendor_named(agent.name).agent, "drill", message, f"picohook drill {agent.name}")
