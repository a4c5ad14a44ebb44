"""Measures how well a judge tells harmful calls from harmless ones, by calls that a person has labelled.

Examples are JSON lines: `tool`, `arguments`, `label` ("harmful" or "harmless"), and, where known, `source`, `pack`,
`irreversible`, and the place: `cwd`, `project`, `agent`, `home`. A line without `tool` sets the place of those after it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from .judge import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from .judge import Judge, Verdict

_PLACE = ("cwd", "project", "agent", "home")
_TEXTS = ("tool", "source", "pack", *_PLACE)


class ExampleError(PicohookError):
    """A line of a file of examples that cannot be read."""


@dataclass(frozen=True, slots=True)
class Example:
    """A call, and whether it is harmful."""

    tool: str
    arguments: dict[str, Any]
    harmful: bool
    source: str
    pack: str
    irreversible: bool
    place: Place

    @property
    def shown(self) -> str:
        """The call in one line."""
        return f"{self.tool} {json.dumps(self.arguments, ensure_ascii=False)}"


def read(path: Path) -> Iterator[Example]:
    """Yields the examples of a file. Raises `ExampleError`, which names the line, and `OSError`."""
    place = Place.here()
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if isinstance(row, dict) and "tool" not in row:
                    place = _placed(row, place)
                else:
                    yield example(row, path.stem, place)
            except (ValueError, TypeError) as error:
                way_out = 'a line is {"tool": ..., "arguments": {...}, "label": "harmful" or "harmless"}'
                raise ExampleError(f"{path}, line {number}: {error}; {way_out}") from error


def example(row: Any, source: str = "", place: Place | None = None) -> Example:
    """Returns the example of a row, with this source and place if it has none. Raises `ValueError` and `TypeError`."""
    if not isinstance(row, dict):
        raise TypeError("it is no object")
    for key in _TEXTS:
        _text(row, key)
    if not isinstance(row.get("arguments"), dict):
        raise TypeError("arguments is no object")
    if row.get("label") not in {"harmful", "harmless"}:
        raise ValueError('label is neither "harmful" nor "harmless"')
    return Example(
        row["tool"],
        row["arguments"],
        row["label"] == "harmful",
        row.get("source") or source,
        row.get("pack") or "any",
        bool(row.get("irreversible")),
        _placed(row, place or Place.here()),
    )


def _placed(row: dict[str, Any], place: Place) -> Place:
    return replace(place, **{key: _text(row, key) for key in _PLACE if key in row})


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


@dataclass(slots=True)
class Counts:
    """What was decided about some examples of one source."""

    harmful: int = 0
    caught: int = 0
    irreversible: int = 0
    irreversible_caught: int = 0
    harmless: int = 0
    denied: int = 0
    asked: int = 0

    def add(self, example: Example, decision: str) -> None:
        """Count one example."""
        stopped = decision != "continue"
        if example.harmful:
            self.harmful += 1
            self.caught += stopped
            self.irreversible += example.irreversible
            self.irreversible_caught += stopped and example.irreversible
        else:
            self.harmless += 1
            self.denied += decision == "deny"
            self.asked += decision == "ask"


@dataclass(frozen=True, slots=True)
class Rates:
    """Percentages: the mean of those of the sources, each with the same weight. None where there are no such examples."""

    harmful: int
    caught: float | None
    irreversible: float | None
    """Those caught of the harmful calls that cannot be undone."""
    harmless: int
    denied: float | None
    asked: float | None

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}

    def cells(self) -> list[str]:
        """The values as texts, empty where there are none."""
        return [str(value) if value or isinstance(value, float) else "" for value in self.wire().values()]


def _rates(counts: Iterable[Counts]) -> Rates:
    rows = list(counts)

    def mean(part: str, whole: str) -> float | None:
        shares = [getattr(row, part) / getattr(row, whole) for row in rows if getattr(row, whole)]
        return round(100 * sum(shares) / len(shares), 1) if shares else None

    return Rates(
        sum(row.harmful for row in rows),
        mean("caught", "harmful"),
        mean("irreversible_caught", "irreversible"),
        sum(row.harmless for row in rows),
        mean("denied", "harmless"),
        mean("asked", "harmless"),
    )


@dataclass(slots=True)
class Measure:
    """What a judge decided about examples."""

    counts: dict[tuple[str, str], Counts] = field(default_factory=lambda: defaultdict(Counts))
    """By source and pack."""
    wrong: list[tuple[Example, Verdict]] = field(default_factory=list)
    """Harmful calls that passed, and harmless ones that did not."""

    def add(self, example: Example, verdict: Verdict) -> None:
        """Count one example."""
        self.counts[example.source, example.pack].add(example, verdict.decision)
        if example.harmful is (verdict.decision == "continue"):
            self.wrong.append((example, verdict))

    def by_pack(self) -> dict[str, Rates]:
        """Returns the rates of each pack."""
        return {name: _rates(row for (_, pack), row in self.counts.items() if pack == name) for name in self._names(1)}

    def by_source(self) -> dict[str, Rates]:
        """Returns the rates of each source."""
        return {name: _rates([self._whole(name)]) for name in self._names(0)}

    def all(self) -> Rates:
        """Returns the rates of all examples."""
        return _rates(self._whole(name) for name in self._names(0))

    def _names(self, place: int) -> list[str]:
        return sorted({key[place] for key in self.counts})

    def _whole(self, source: str) -> Counts:
        rows = [row for (name, _), row in self.counts.items() if name == source]
        return Counts(**{name: sum(getattr(row, name) for row in rows) for name in Counts.__slots__})

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return {
            "all": self.all().wire(),
            "packs": {name: rates.wire() for name, rates in self.by_pack().items()},
            "sources": {name: rates.wire() for name, rates in self.by_source().items()},
            "wrong": [
                {
                    "tool": example.tool,
                    "arguments": example.arguments,
                    "label": "harmful" if example.harmful else "harmless",
                    "source": example.source,
                    "pack": example.pack,
                    "decision": verdict.decision,
                    "rule": verdict.rule,
                    "reason": verdict.reason,
                }
                for example, verdict in self.wrong
            ],
        }


def measure(judge: Judge, examples: Iterable[Example]) -> Measure:
    """Ask the judge about each example. Returns what it decided."""
    measured = Measure()
    for example in examples:
        measured.add(example, judge.judge(example.tool, example.arguments, example.place))
    return measured
