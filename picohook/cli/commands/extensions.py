"""`picohook extensions`: the extensions, and where they come from."""

from typing import Any

import typer

from ... import extensions as found
from .. import output
from ..command import App, Json

app = App()


@app.command()
def extensions(*, as_json: Json = False) -> None:
    """List the extensions, and where they come from.

    Shows what each adds: kinds of hook, tables, keywords, dialects, commands, options. Names each package that cannot be used,
    and why. Exits with 1 if there is one.
    """
    problems = [{"package": one.package, "why": one.why} for one in found.others()[1]]
    problems += [{"package": "", "why": why} for why in found.conflicts()]
    rows = [_described(one) for one in found.usable()]
    if as_json:
        output.data({"extensions": rows, "problems": problems})
    else:
        shown = ((row["name"], row["from"] or "built in", "; ".join(_added(row)) or "-") for row in rows)
        output.table(("extension", "from", "adds"), shown)
        for problem in problems:
            output.error(": ".join(filter(None, problem.values())))
    if problems:
        raise typer.Exit(1)


def _described(one: found.Installed) -> dict[str, Any]:
    return {"name": one.row.name, "from": one.package, **{name: [*getattr(one.row, name)] for name in found.KEYED}}


def _added(row: dict[str, Any]) -> list[str]:
    return [f"{name}: {', '.join(row[name])}" for name in found.KEYED if row[name]]
