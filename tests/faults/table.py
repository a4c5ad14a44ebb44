"""Which tests are about which fault, their results, and the page that shows both."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from catalogue import AREAS, FAULTS
from promises import PROMISES

if TYPE_CHECKING:
    from collections.abc import Mapping

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "faults.md"
BACKENDS = ("asyncio", "trio")

_NAME = re.compile(r"test_((?:[A-Z]\d+_)+)|Test((?:[A-Z]\d+)+)(?=[A-Z])|([A-Z]\d+)_")
_ID = re.compile(r"[A-Z]\d+")
_DEFINED = re.compile(r"^ *(?:(?:async )?def |class )?(test_\w+|Test\w+)(?=\(|:| = )", re.MULTILINE)


def ids_of(node: str) -> set[str]:
    """The faults that a test is about."""
    head, _, cases = node.partition("[")
    parts = [*head.split("::")[1:], *cases.removesuffix("]").split("-")]
    return {fault for part in parts if (found := _NAME.match(part)) for fault in _ID.findall(found[0])}


def backend_of(node: str) -> str | None:
    """The event loop that a test runs on."""
    cases = node.partition("[")[2].removesuffix("]").split("-")
    return next((backend for backend in BACKENDS if backend in cases), None)


class Table:
    """The result of every test that is about a fault: "passed", "failed" or "skipped"."""

    def __init__(self, results: Mapping[str, str]) -> None:
        self.tests: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for node, result in results.items():
            for fault in ids_of(node):
                self.tests[fault][node] = result

    @property
    def unknown(self) -> set[str]:
        """Ids in names of tests that are no faults."""
        return self.tests.keys() - FAULTS.keys()

    def verdict(self, fault: str) -> str:
        """The event loops on which the tests of a fault passed, or what is wrong."""
        results = self.tests[fault]
        if "failed" in results.values():
            return "FAILED"
        passed = {backend_of(node) for node, result in results.items() if result == "passed"}
        looked_at = {backend_of(node) for node in results}
        if not passed:
            return "NOT TESTED" if not results else "NOT RUN"
        if looked_at == {None}:
            return "yes"
        missing = [backend for backend in BACKENDS if backend not in passed]
        return f"NOT ON {', '.join(missing)}" if missing else ", ".join(BACKENDS)

    @property
    def wrong(self) -> dict[str, str]:
        """The faults that no passed test shows to be met, and why."""
        verdicts = {fault: self.verdict(fault) for fault in FAULTS}
        return {fault: verdict for fault, verdict in verdicts.items() if verdict.isupper() or verdict.startswith("NOT")}

    def page(self) -> str:
        """The text of the page."""
        lines = [_INTRODUCTION]
        for letter, area in AREAS.items():
            lines += [f"## {area}", "", "| | fault | what the host does | shown by | passed |", "|---|---|---|---|---|"]
            for fault, (what, outcome) in FAULTS.items():
                if fault[0] == letter:
                    shown = "<br>".join(self._links(fault))
                    lines.append(f"| {fault} | {what} | {outcome} | {shown} | {self.verdict(fault)} |")
            lines.append("")
        return "\n".join([*lines, *promises(), ""])

    def _links(self, fault: str) -> list[str]:
        names = sorted({tuple(node.partition("[")[0].split("::")) for node in self.tests[fault]})
        return [f"[{'.'.join(name)}](../../{path})" for path, *name in names]


def places() -> dict[str, str]:
    """The file of every test and every class of tests, by name."""
    found: dict[str, str] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in _DEFINED.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, str(path.relative_to(TESTS.parent)))
    return found


def promises() -> list[str]:
    """The section of the page that says which tests hold picohook to each promise."""
    where = places()
    lines = ["## Promises", "", "| [promise](../explanation/guarantees.md#what-is-promised) | shown by |", "|---|---|"]
    for promise, names in PROMISES.items():
        shown = "<br>".join(f"[{name}](../../{where.get(name, '')})" for name in names)
        lines.append(f"| {promise} | {shown} |")
    return lines


_INTRODUCTION = """\
# Faults

What can go wrong with a hook, what the host does then, and the tests that show it. `make faults` writes this page from the
results of those tests. The [last table](#promises) names the tests for each promise.

- *Fails*: the question ends at once, with a typed error. An observer's event is dropped and counted, an interceptor takes its
  `on_failure`, and an approval is denied with the cause.
- *Dropped*: the line is counted and has no other effect, and the deadline stands. Past a quota the hook is killed.
- *Killed*: everything it was asked fails, its stdin is closed, and it and all its descendants get TERM and then KILL. It is
  started again within its budget.
"""
