"""Runs one hook under several dialects: what its answers and failures do in each vendor's agent, and in strict."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from ..config.dialects.foreign.other_files import WrittenHandler, read_as
from ..errors import HookTimeoutError
from ..hooks import make_hook
from ..hooks.foreign.contract import Dialect, Facts, HandlerInput, HandlerResult, Rule
from ..hooks.foreign.dialects import DialectName, dialect_of
from ..hooks.foreign.effect import Effect, effect
from ..hooks.one_shot.handlers import HandlersHook
from ..host import Host
from ..model.payloads import ToolCall

if TYPE_CHECKING:
    from ..hooks.foreign.spec import GroupSpec

NOT_ASKED, NO_EVENT, LEFT_OUT, NOT_LOADED = "not asked", "no event", "left out", "not loaded"
"""Why a hook decides nothing: its matcher does not match, the agent has no such event, or its entry is wrong."""
FAULTS = {
    "is not there (127)": HandlerResult(127, stderr="not found"),
    "cannot be run (126)": HandlerResult(126, stderr="Permission denied"),
    "fails (exit code 1)": HandlerResult(1, stderr="it went wrong"),
    "is killed": HandlerResult(-9),
    "is late": HandlerResult(failure=HookTimeoutError("it did not end in time")),
    "prints broken JSON": HandlerResult(0, '{"decision":'),
}
"""The results of hooks that fail."""
HARMLESS, HARMFUL, AGAIN = "harmless call", "harmful call", "its denial"


class Cell(NamedTuple):
    """The effect of one case under one dialect."""

    vendor: Effect | str
    strict: Effect | str
    why: str = ""
    """The reason, if the effect is a word: why the hook decides nothing."""
    result: HandlerResult | None = None
    handler_input: HandlerInput | None = None

    @property
    def refuses(self) -> bool:
        """Whether the vendor's agent refuses the call."""
        return isinstance(self.vendor, Effect) and self.vendor.refuses

    @property
    def failed(self) -> bool:
        """Whether the hook gave no answer."""
        return not isinstance(self.vendor, Effect) or self.vendor.failed

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        handler_input = {"vendor": word(self.vendor), "strict": word(self.strict), "why": self.why}
        if self.result is None:
            return handler_input
        return {
            **handler_input,
            "exit_code": self.result.exit_code,
            "stdout": self.result.stdout,
            "stderr": self.result.stderr,
        }


def word(one: Effect | str) -> str:
    """The word for an effect."""
    return one.word if isinstance(one, Effect) else one


@dataclass
class Comparison:
    """All cases of one hook."""

    handler: WrittenHandler
    calls: dict[str, ToolCall] = field(default_factory=dict)
    rows: dict[str, dict[DialectName, Cell]] = field(default_factory=dict)
    denied_in: DialectName | None = None
    """The dialect whose agent refuses the harmful call: the hook's own, or the first one."""

    @property
    def lost(self) -> Iterator[tuple[DialectName, str, str]]:
        """Where the denial is lost: the dialect, the case, and why."""
        if self.denied_in is None:
            return
        for case, cells in self.rows.items():
            for dialect, cell in cells.items():
                if case in {HARMFUL, AGAIN} and not cell.refuses:
                    yield dialect, case, cell.why

    @property
    def is_silent(self) -> bool:
        """Whether the hook gives no answer under any dialect."""
        return all(cell.failed for cell in self.rows[HARMFUL].values()) and self.denied_in is None

    @property
    def odd(self) -> Iterator[tuple[DialectName, str, str]]:
        """Where the harmless call is refused, and where the hook fails: the dialect, the case, and why."""
        for case in (HARMLESS, HARMFUL):
            for dialect, cell in self.rows[case].items():
                refused = case == HARMLESS and cell.refuses
                if cell.why and (refused or (cell.failed and self.denied_in is None)):
                    yield dialect, case, cell.why

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return {
            "hook": self.handler.at,
            "runs": self.handler.command,
            "dialect": self.handler.home,
            "calls": {name: {"tool": call.tool, "arguments": call.arguments} for name, call in self.calls.items()},
            "cases": {case: {name: cell.wire() for name, cell in cells.items()} for case, cells in self.rows.items()},
            "lost": [{"dialect": name, "case": case, "why": why} for name, case, why in self.lost],
        }


class _Column:
    """A hook under one dialect."""

    def __init__(self, name: DialectName, handler: WrittenHandler, call: ToolCall) -> None:
        self.title, self._dialect = dialect_of(name).title, dialect_of(name)
        self.event = _event(self._dialect, handler, call)
        self.group: "GroupSpec | None" = None
        self._why, self._word = f"{self.title} has no event at {handler.stage} about {call.tool}", NO_EVENT
        if self.event:
            self.group, self._why = read_as(name, handler, self.event)
            self._word = LEFT_OUT

    @property
    def _in_strict(self) -> str:
        return NOT_LOADED if self._word == LEFT_OUT else self._word

    @property
    def _rule(self) -> Rule:
        assert self.group is not None
        return self.group.filter.handlers[0].rule

    async def ask(self, call: ToolCall, time_limit: float) -> Cell:
        """Ask the hook about a call. Returns the effect of its answer."""
        if self.group is None:
            return Cell(self._word, self._in_strict, self._why)
        hook = make_hook(self.group)
        assert isinstance(hook, HandlersHook)
        async with Host([hook]):
            answered = await hook.result(0, call, within=time_limit)
        if answered is None:
            matcher = self._rule.matcher
            name = self._input(call).stdin.get(self._dialect.events[self.event].matched, call.tool)
            return Cell(NOT_ASKED, NOT_ASKED, f"its matcher {matcher} does not match {name}")
        handler_input, result = answered
        return self.decoded(result, handler_input, call)

    def answered(self, result: HandlerResult, call: ToolCall) -> Cell:
        """Returns the effect of a result, without running the hook."""
        return (
            Cell(self._word, self._in_strict, self._why)
            if self.group is None
            else self.decoded(result, self._input(call), call)
        )

    def _input(self, call: ToolCall) -> HandlerInput:
        assert self.group is not None
        handler_input = self._dialect.encode(self.event, call, self.group.filter.facts())
        assert handler_input is not None
        return handler_input

    def decoded(self, result: HandlerResult, handler_input: HandlerInput, call: ToolCall) -> Cell:
        """Returns the effect of a result in the vendor's agent and in strict."""
        vendor, strict = (
            effect(self._dialect, self.event, [(self._rule, result)], handler_input, call, failures)
            for failures in ("vendor", "strict")
        )
        return Cell(vendor, strict, vendor.why, result, handler_input)


def _event(dialect: Dialect, handler: WrittenHandler, call: ToolCall) -> str:
    """The event of a dialect for a call: the one of the same name, or the first of the stage; empty if there is none."""
    events = [event for event, row in dialect.events.items() if row.stage == handler.stage]
    events.sort(key=lambda event: event != handler.event)
    return next((event for event in events if dialect.encode(event, call, Facts()) is not None), "")


async def compare(
    handler: WrittenHandler,
    dialects: Sequence[DialectName],
    samples: Sequence[tuple[ToolCall, ToolCall]],
    time_limit: float,
) -> Comparison:
    """Ask a hook about a harmless call and a harmful one under each dialect, and try variants of its answers.

    Takes the first pair of `samples` whose harmful call is refused under some dialect.
    """
    found = Comparison(handler)
    for harmless, harmful in samples:
        columns = {name: _Column(name, handler, harmful) for name in dialects}
        cells = await _ask_all(columns, harmful, time_limit)
        refusing = [name for name, cell in cells.items() if cell.refuses]
        if refusing or not found.rows:
            found.calls = {HARMLESS: harmless, HARMFUL: harmful}
            found.rows = {HARMLESS: await _ask_all(columns, harmless, time_limit), HARMFUL: cells}
        if refusing:
            found.denied_in = handler.home if handler.home in refusing else refusing[0]
        if refusing or all(cell.failed for cell in cells.values()):
            break
    harmful = found.calls[HARMFUL]
    columns = {name: _Column(name, handler, harmful) for name in dialects}
    cases: dict[str, HandlerResult] = {}
    if found.denied_in is not None:
        _explain(found, columns)
        denial = found.rows[HARMFUL][found.denied_in].result
        assert denial is not None
        everywhere = all(
            cell.result is not None and _answer(cell.result) == _answer(denial) for cell in found.rows[HARMFUL].values()
        )
        cases |= {} if everywhere else {AGAIN: denial}
        cases |= variants(denial)
    for case, result in (cases | FAULTS).items():
        found.rows[case] = {name: column.answered(result, harmful) for name, column in columns.items()}
    for name, cell in found.rows.get(AGAIN, {}).items():
        if not cell.refuses and not cell.why:
            found.rows[AGAIN][name] = cell._replace(why=_unseen(columns[name]))
    return found


async def _ask_all(columns: dict[DialectName, _Column], call: ToolCall, time_limit: float) -> dict[DialectName, Cell]:
    """The cells of a case, in the order of the columns. The dialects are asked at the same time."""
    cells: dict[DialectName, Cell] = {}

    async def ask(name: DialectName) -> None:
        cells[name] = await columns[name].ask(call, time_limit)

    async with anyio.create_task_group() as tasks:
        for name in columns:
            tasks.start_soon(ask, name)
    return {name: cells[name] for name in columns}


def variants(denial: HandlerResult) -> dict[str, HandlerResult]:
    """Answers that differ little from a denial."""
    if denial.stdout.strip().startswith("{"):
        return {
            "denies with exit code 1": HandlerResult(1, denial.stdout, denial.stderr),
            "denies behind other text": HandlerResult(denial.exit_code, f"checking\n{denial.stdout}", denial.stderr),
        }
    if denial.exit_code == 2 and denial.stderr.strip():  # noqa: PLR2004 - the code that blocks
        return {"denies without a reason": HandlerResult(2, denial.stdout)}
    return {}


def _explain(found: Comparison, columns: dict[DialectName, _Column]) -> None:
    """Note for each dialect that lets the harmful call pass why it does."""
    assert found.denied_in is not None
    cells = found.rows[HARMFUL]
    denial = cells[found.denied_in]
    assert denial.handler_input is not None
    for name, cell in cells.items():
        if cell.refuses or cell.handler_input is None or cell.result is None or cell.why:
            continue
        common = dialect_of(found.denied_in).common
        missing = [
            key for key in denial.handler_input.stdin if key not in cell.handler_input.stdin and key not in common
        ]
        title = columns[name].title
        if denial.result is not None and _answer(cell.result) == _answer(denial.result):
            why = _unseen(columns[name])
        else:
            why = "it gives another answer" + (f": {title} does not send {', '.join(missing)}" if missing else "")
        cells[name] = cell._replace(why=why)


def _unseen(column: _Column) -> str:
    return f"{column.title} sees no denial in this answer"


def _answer(result: HandlerResult) -> tuple[int, str]:
    return result.exit_code, result.stdout


def shown(call: ToolCall) -> str:
    """A call, as text."""
    return f"{call.tool} {json.dumps(call.arguments)}"
