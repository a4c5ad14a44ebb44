"""How `--help` shows a command."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

F = TypeVar("F", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help shows arguments by their metavars, without the brackets and types that typer adds."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        del ctx
        return ["[OPTIONS]", *(_metavar(param) for param in self.params if _is_argument(param))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and _is_argument(param):
                sections["Arguments"].append((_metavar(param), record[1]))
            elif record is not None:
                sections["Options"].append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """A command or a group of commands with this help, plain text and no completion of its own."""

    def __init__(self, *, add_completion: bool = False, **settings: Any) -> None:
        super().__init__(
            add_completion=add_completion, pretty_exceptions_enable=False, rich_markup_mode=None, **settings
        )

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **settings: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **settings)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name)
