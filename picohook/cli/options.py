"""Options that several commands have, and the values they take."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from .log import verbose

Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=verbose, help="Show the host's log on stderr, and the hooks' stderr."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one value a line.")]


def require_file(named: Path) -> Path:
    """Return the path, or raise `typer.BadParameter` if nothing is there."""
    if not named.is_symlink() and not named.exists():
        raise typer.BadParameter(f"there is no file {named}")
    return named


def seconds(least: float) -> Callable[[str | float], float]:
    """Return a parser for `typer.Option(parser=...)`: a number of seconds, `least` or more."""

    def read(given: str | float) -> float:
        try:
            number = float(given)
        except ValueError:
            number = math.nan
        if not least <= number < math.inf:
            raise typer.BadParameter(f"must be a number of seconds, {least:g} or more, not {given}")
        return number

    return read


def count(given: str | int) -> int:
    """Parse a whole number, 1 or more, for `typer.Option(parser=...)`."""
    try:
        number = int(given)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"must be a whole number, 1 or more, not {given}")
    return number
