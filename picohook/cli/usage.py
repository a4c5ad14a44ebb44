"""How commands are described, and numbers taken: in our words, and not in those of what typer is built on."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])

ORDER = (
    "new", "check", "doctor", "list", "call", "run", "trust", "serve", "control", "top", "trace", "replay", "audit",
    "conformance", "probe", "schema",
)  # fmt: skip
"""Commands as a newcomer comes to need them."""


class Commands(TyperGroup):
    """All of them, in that order; one that it does not name comes last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


class Command(TyperCommand):
    """One whose arguments are shown as their metavars have them, without brackets and types of typer's."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        del ctx
        return ["[OPTIONS]", *(_shown(param) for param in self.params if _is_argument(param))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and _is_argument(param):
                sections["Arguments"].append((_shown(param), record[1]))
            elif record is not None:
                sections["Options"].append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """Makes such commands."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **settings: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **settings)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _shown(param: Any) -> str:
    return str(param.metavar or param.name)


def seconds(least: float) -> Callable[[str | float], float]:
    """For `typer.Option(parser=...)`."""

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
    """For `typer.Option(parser=...)`: how many there may be."""
    try:
        number = int(given)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"must be a whole number, 1 or more, not {given}")
    return number
