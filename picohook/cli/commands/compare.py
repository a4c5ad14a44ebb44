"""`picohook compare`: runs one hook under the contracts of several agents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ...config.dialects.foreign.other_files import WrittenHandler, read_as, written_handlers
from ...hooks.foreign.dialects import DialectName, dialect_of
from ...hooks.foreign.samples import SAMPLES
from ...model.payloads import ToolCall
from .. import output
from ..command import App, Json, require_file, seconds
from ..comparison import Cell, Comparison, compare as compare_hook, shown, word
from ..doctor.foreign_gates import tools_of
from ..doctor.gates import DECIDES
from ..host import in_loop
from ..params import question

app = App()
_MOST = 5
"""The most tools that are tried until the hook refuses a harmful call."""
_SHOWN = 56
"""The most characters of a call."""
_SAME = "·"


@app.command()
def compare(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A hook file of one of these agents, or a script.", show_default=False),
    ],
    *,
    dialect: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="The agents to compare, with commas between them."),
    ] = ",".join(get_args(DialectName)),
    params: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE|-",
            help="A tool call that the hook has to refuse. Default: sample calls.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.1), help="How long the hook may take.")
    ] = 10.0,
    as_json: Json = False,
) -> None:
    """Compare how several agents read the same hook.

    Asks the hook about a harmless call and a harmful one, with the fields that each agent sends, and reads its answers by each
    agent's rules. Shows where a denial is lost, and where a failure lets the call through. No tool is called. Exits with 1 if a
    denial is lost.
    """
    dialects = _named(dialect)
    handlers = [one for one in written_handlers(require_file(file)) if one.stage in DECIDES]
    gates = [one for one in handlers if one.command]
    for one in handlers:
        if one not in gates:
            output.warn(f"{one.at}: it runs no command, so it is not compared")
    if not gates:
        output.error(f"{file}: it has no command that decides about tool calls")
        raise typer.Exit(1)
    harmful: Any = None if params is None else question("before_tool", params).payload

    async def compare_all() -> list[Comparison]:
        return [await compare_hook(one, dialects, _samples(one, harmful), timeout) for one in gates]

    found = in_loop(compare_all)
    for comparison in found:
        if as_json:
            output.data(comparison.wire())
        else:
            _show(comparison, dialects)
    if any(any(comparison.lost) for comparison in found):
        raise typer.Exit(1)


def _named(text: str) -> list[DialectName]:
    known = get_args(DialectName)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise typer.BadParameter(f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(known)}")
    return names  # type: ignore[return-value] # they are known


def _samples(handler: WrittenHandler, harmful: ToolCall | None) -> list[tuple[ToolCall, ToolCall]]:
    """Pairs of a harmless call and a harmful one of a tool that the hook is asked about."""
    group = None if handler.home is None else read_as(handler.home, handler, handler.event)[0]
    tools = list(SAMPLES.items()) if group is None else list(tools_of(group.filter, 0))
    tools = tools or list(SAMPLES.items())
    pairs = [(_ask(tool, sample.harmless), _ask(tool, sample.harmful)) for tool, sample in tools]
    if harmful is not None:
        return [(next((one for one, _ in pairs if one.tool == harmful.tool), pairs[0][0]), harmful)]
    return pairs[:_MOST]


def _ask(tool: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(tool=tool, arguments=dict(arguments), tool_call_id="compare")


def _show(found: Comparison, dialects: Iterable[DialectName]) -> None:
    titles = [dialect_of(name).title for name in dialects]
    whose = "" if found.handler.home is None else f", from a file of {dialect_of(found.handler.home).title}"
    output.line(f"{found.handler.at}{whose}", style="bold")
    output.pairs([(name, _brief(call)) for name, call in found.calls.items()])
    output.line()
    output.table(("the vendor's agent", *titles), (_row(case, cells.values()) for case, cells in found.rows.items()))
    output.line()
    differing = [
        _row(case, cells.values(), strict=True)
        for case, cells in found.rows.items()
        if any(word(cell.vendor) != word(cell.strict) for cell in cells.values())
    ]
    if differing:
        output.table(("strict", *titles), differing)
        output.line()
    odd = list(found.odd)
    if odd:
        output.pairs([(dialect_of(name).title, f"{case}: {why}") for name, case, why in odd])
        output.line()
    lost = list(found.lost)
    if lost:
        output.line("a denial is lost", style="bold red")
        output.pairs([(dialect_of(name).title, f"{case}: {why}" if why else case) for name, case, why in lost])
    elif found.is_silent:
        output.line("it gives no answer", style="bold red")
    elif found.denied_in is None:
        output.line("it refuses neither call: name a call that it has to refuse with --params", style="bold yellow")
    else:
        output.line("no denial is lost", style="bold green")
    output.line()


def _row(case: str, cells: Iterable[Cell], *, strict: bool = False) -> tuple[str, ...]:
    if not strict:
        return (case, *(word(cell.vendor) for cell in cells))
    return (case, *(_SAME if word(cell.vendor) == word(cell.strict) else word(cell.strict) for cell in cells))


def _brief(call: ToolCall) -> str:
    text = shown(call)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
