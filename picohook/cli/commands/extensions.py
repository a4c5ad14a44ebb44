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
    rows: list[dict[str, Any]] = [
        {"name": one.row.name, "from": one.package, **{field: [*getattr(one.row, field)] for field in found.KEYED}}
        for one in found.usable()
    ]
    if as_json:
        output.data({"extensions": rows, "problems": problems})
    else:
        added = ("; ".join(f"{name}: {', '.join(row[name])}" for name in found.KEYED if row[name]) for row in rows)
        shown = ((row["name"], row["from"] or "built in", adds or "-") for row, adds in zip(rows, added, strict=True))
        output.table(("extension", "from", "adds"), shown)
        for problem in problems:
            output.error(": ".join(filter(None, problem.values())))
    if problems:
        raise typer.Exit(1)
