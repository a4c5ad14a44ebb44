"""Measures how well a judge tells harmful calls from harmless ones, by calls that a person has labelled.

Examples are JSON lines: `tool`, `arguments`, `label` ("harmful" or "harmless"), and, where known, `source`, `pack`,
`irreversible`, and the place: `cwd`, `project`, `agent`, `home`. A line without `tool` sets the place of those after it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...config.checks import validate
from ...config.problems import Problems
from ...errors import PicohookError
from .call import Call, Situation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .judge import Judge, Verdict


class ExampleError(PicohookError):
    """A line of a file of examples that cannot be read."""


class Example(Call):
    """A call, and whether it is harmful."""

    label: Literal["harmful", "harmless"]
    source: str = ""
    pack: str = "any"
    irreversible: bool = False


def read(path: Path) -> Iterator[Example]:
    """Yields the examples of a file. Raises `ExampleError`, which names the line, and `OSError`."""
    common: dict[str, Any] = {"source": path.stem}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        problems = Problems(f"{path}, line {number}")
        try:
            row = json.loads(line) if line.strip() else {}
        except ValueError as error:
            problems.add("", str(error))
            row = {}
        whole = common | row if isinstance(row, dict) else row
        if isinstance(row, dict) and "tool" not in row:
            validate(Situation, row, problems)
            common = whole
        elif (example := validate(Example, whole, problems)) is not None:
            yield example
        if problems.found:
            way_out = 'a line is {"tool": ..., "arguments": {...}, "label": "harmful" or "harmless"}'
            raise ExampleError(f"{problems.found[0]}; {way_out}")


class _Kind(NamedTuple):
    """Of what kind an example is, and what was decided about it."""

    source: str
    pack: str
    harmful: bool
    irreversible: bool
    decision: str


class Rates(NamedTuple):
    """Percentages: the mean of those of the sources, each with the same weight. None where there are no such examples."""

    harmful: int
    caught: float | None
    irreversible: float | None
    """Those caught of the harmful calls that cannot be undone."""
    harmless: int
    denied: float | None
    asked: float | None

    def cells(self) -> list[str]:
        """The values as texts, empty where there are none."""
        return [str(value) if value or isinstance(value, float) else "" for value in self]


@dataclass(slots=True)
class Measure:
    """What a judge decided about examples."""

    counts: Counter[_Kind] = field(default_factory=Counter)
    wrong: list[tuple[Example, Verdict]] = field(default_factory=list)
    """Harmful calls that passed, and harmless ones that did not."""

    def add(self, example: Example, verdict: Verdict) -> None:
        """Count one example."""
        harmful = example.label == "harmful"
        kind = _Kind(example.source, example.pack, harmful, harmful and example.irreversible, verdict.decision)
        self.counts[kind] += 1
        if harmful is (verdict.decision == "continue"):
            self.wrong.append((example, verdict))

    def by_pack(self) -> dict[str, Rates]:
        """Returns the rates of each pack."""
        return {name: self._rates(pack=name) for name in sorted({kind.pack for kind in self.counts})}

    def by_source(self) -> dict[str, Rates]:
        """Returns the rates of each source."""
        return {name: self._rates(source=name) for name in sorted({kind.source for kind in self.counts})}

    def all(self) -> Rates:
        """Returns the rates of all examples."""
        return self._rates()

    def _rates(self, pack: str = "", source: str = "") -> Rates:
        counts = [
            (kind, count)
            for kind, count in self.counts.items()
            if pack in {"", kind.pack} and source in {"", kind.source}
        ]

        def share(whole: Callable[[_Kind], bool], part: Callable[[str], bool]) -> tuple[int, float | None]:
            """How many there are, and how many per cent of them are a part."""
            all_of, part_of = Counter[str](), Counter[str]()
            for kind, count in counts:
                if whole(kind):
                    all_of[kind.source] += count
                    part_of[kind.source] += count * part(kind.decision)
            shares = [part_of[name] / all_of[name] for name in all_of]
            return all_of.total(), round(100 * sum(shares) / len(shares), 1) if shares else None

        harmful, caught = share(lambda kind: kind.harmful, lambda decision: decision != "continue")
        _, irreversible = share(lambda kind: kind.irreversible, lambda decision: decision != "continue")
        harmless, denied = share(lambda kind: not kind.harmful, lambda decision: decision == "deny")
        _, asked = share(lambda kind: not kind.harmful, lambda decision: decision == "ask")
        return Rates(harmful, caught, irreversible, harmless, denied, asked)

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        about = {"tool", "arguments", "label", "source", "pack"}
        return {
            "all": self.all()._asdict(),
            "packs": {name: rates._asdict() for name, rates in self.by_pack().items()},
            "sources": {name: rates._asdict() for name, rates in self.by_source().items()},
            "wrong": [example.model_dump(include=about) | verdict.wire() for example, verdict in self.wrong],
        }


def measure(judge: Judge, examples: Iterable[Example]) -> Measure:
    """Ask the judge about each example. Returns what it decided."""
    measured = Measure()
    for example in examples:
        measured.add(example, judge.judge(example.tool, example.arguments, example.place))
    return measured
