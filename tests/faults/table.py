"""Which tests are about which fault, what came of them, and the page that shows it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from catalogue import AREAS, FAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
BACKENDS = ("asyncio", "trio")

_NAME = re.compile(r"test_((?:[A-Z]\d+_)+)|Test((?:[A-Z]\d+)+)(?=[A-Z])|([A-Z]\d+)_")
_ID = re.compile(r"[A-Z]\d+")


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
    """What came of every test that is about a fault: "passed", "failed" or "skipped"."""

    def __init__(self, results: Mapping[str, str]) -> None:
        self.tests: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for node, result in results.items():
            for fault in ids_of(node):
                self.tests[fault][node] = result

    @property
    def unknown(self) -> set[str]:
        """Ids in names of tests that stand for no fault."""
        return self.tests.keys() - FAULTS.keys()

    def verdict(self, fault: str) -> str:
        """Where the tests of a fault passed; or what is wrong."""
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
        """The faults that are not shown to be met, and why."""
        verdicts = {fault: self.verdict(fault) for fault in FAULTS}
        return {fault: verdict for fault, verdict in verdicts.items() if verdict.isupper() or verdict.startswith("NOT")}

    def page(self) -> str:
        """The page of the documentation."""
        lines = [_INTRODUCTION]
        for letter, area in AREAS.items():
            lines += [f"## {area}", "", "| | fault | what the host does | shown by | passed |", "|---|---|---|---|---|"]
            for fault, (what, outcome) in FAULTS.items():
                if fault[0] == letter:
                    shown = "<br>".join(self._links(fault))
                    lines.append(f"| {fault} | {what} | {outcome} | {shown} | {self.verdict(fault)} |")
            lines.append("")
        return "\n".join(lines)

    def _links(self, fault: str) -> list[str]:
        names = sorted({tuple(node.partition("[")[0].split("::")) for node in self.tests[fault]})
        return [f"[{'.'.join(name)}](../../{path})" for path, *name in names]


_INTRODUCTION = """\
# Faults

What can go wrong with a hook, what the host does then, and the tests that do it to the host. This page is written by
`make faults` from what came of those tests.

- *Fails*: the question ends at once, with a typed error. An observer's event is dropped and counted, an interceptor takes its
  `on_failure`, and an approval is denied with the cause.
- *Dropped*: the line is counted and has no other effect, and the deadline stands. Past a quota the hook is killed.
- *Killed*: all that it was asked fails, its stdin is closed, it gets TERM and then KILL, with all that it started. It is
  started again within its budget.
"""
