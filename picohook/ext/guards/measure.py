"""Measures how well a judge tells harmful calls from harmless ones, by calls that a person has labelled."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from ...errors import PicohookError
from .call import Call, calls
from .judge import Judge, Verdict


class Example(Call):
    """A call, and whether it is harmful."""

    label: Literal["harmful", "harmless"]
    source: str = ""
    pack: str = "any"
    irreversible: bool = False
    """Whether what it does cannot be undone."""


def read(path: Path) -> Iterator[Example]:
    """Yields the examples of a file. Raises `PicohookError`, which names the line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
    for _, example, problem in calls(lines, Example):
        if example is None:
            way_out = 'a line is {"tool": ..., "arguments": {...}, "label": "harmful" or "harmless"}'
            raise PicohookError(f"{path}, {problem}; {way_out}")
        yield example if example.source else example.model_copy(update={"source": path.stem})


class Rates(NamedTuple):
    """Percentages: the mean of those of the sources, each with the same weight. None where there are no such examples."""

    harmful: int
    caught: float | None
    irreversible: float | None
    """Those caught of the harmful calls that cannot be undone."""
    harmless: int
    denied: float | None
    asked: float | None


@dataclass(slots=True)
class Measure:
    """What a judge decided about examples."""

    judged: list[tuple[Example, Verdict]]

    @property
    def wrong(self) -> list[tuple[Example, Verdict]]:
        """Harmful calls that passed, and harmless ones that did not."""
        return [one for one in self.judged if (one[0].label == "harmful") is (one[1].decision == "continue")]

    def by(self, name: Literal["pack", "source"]) -> dict[str, Rates]:
        """Returns the rates of each pack, or of each source."""
        names = sorted({getattr(example, name) for example, _ in self.judged})
        return {one: self.rates(**{name: one}) for one in names}

    def rates(self, **fields: str) -> Rates:
        """Returns the rates of the examples with these values, such as `pack="git"`."""
        judged = [one for one in self.judged if fields.items() <= one[0].__dict__.items()]
        harmful, harmless = ([one for one in judged if one[0].label == label] for label in ("harmful", "harmless"))
        forever = [one for one in harmful if one[0].irreversible]
        caught = (_share(harmful, "deny", "ask"), _share(forever, "deny", "ask"))
        return Rates(len(harmful), *caught, len(harmless), _share(harmless, "deny"), _share(harmless, "ask"))

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        about = {"tool", "arguments", "label", "source", "pack"}
        return {
            "all": self.rates()._asdict(),
            "packs": {name: rates._asdict() for name, rates in self.by("pack").items()},
            "sources": {name: rates._asdict() for name, rates in self.by("source").items()},
            "wrong": [example.model_dump(include=about) | verdict.wire() for example, verdict in self.wrong],
        }


def _share(judged: Iterable[tuple[Example, Verdict]], *decisions: str) -> float | None:
    """How many per cent have one of these decisions."""
    sources: dict[str, list[bool]] = {}
    for example, verdict in judged:
        sources.setdefault(example.source, []).append(verdict.decision in decisions)
    return round(100 * fmean(map(fmean, sources.values())), 1) if sources else None


def measure(judge: Judge, examples: Iterable[Example]) -> Measure:
    """Ask the judge about each example. Returns what it decided."""
    return Measure([(one, judge.judge(one.tool, one.arguments, one.place)) for one in examples])
