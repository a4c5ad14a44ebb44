"""The results of a run, as JSON and as JUnit's XML. Standard library only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree as ET

from ..wire.text import escape
from ..wire.written_files import place
from .manifest import LEVELS, MUST, Manifest, Requirement

PASS, FAIL, SKIP, UNTRIED = "pass", "fail", "skip", "untried"
FORMAT = 1
"""The version of the JSON report."""
_DURING = re.compile(r"^in the run for [^,]+, ")
_WHERE = re.compile(r'"id": -?\d+|with id \d+|(hook\.)?\b(before|after|approve)_[a-z]+')
"""The parts of a failure that say where it occurred."""
_TELLS_ALL = re.compile(r"it (ended with|closed its output|wrote (?!\{)|answered .*\"error\": \{)")
"""Failures whose cause does not depend on the expected answer: the hook's end, a line that is not a message, an error."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one requirement."""

    requirement: Requirement
    status: str
    expected: str = ""
    """The expected answer, for a failure."""
    said: str = ""
    """The act of the hook or host that failed, or the reason why the requirement was skipped or not tried. Escaped."""
    same_as: str = ""
    """The id of an earlier failure with the same cause, which counts for both; otherwise empty."""

    @property
    def broken(self) -> bool:
        """Whether this is a MUST that fails or was not tried."""
        return self.status in {FAIL, UNTRIED} and self.requirement.level == MUST

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        one = self.requirement
        shown = {"id": one.id, "level": one.level, "title": one.title, "status": self.status}
        more = {"expected": self.expected, "said": self.said, "same_as": self.same_as}
        return shown | {name: text for name, text in more.items() if text}


def counted_once(results: Sequence[Result]) -> list[Result]:
    """Returns the results, with `same_as` set for each failure with the cause of an earlier one. A MUST comes first."""
    heads: dict[str, str] = {}
    for level in LEVELS:
        for one in results:
            if one.status == FAIL and one.requirement.level == level:
                heads.setdefault(_cause(one), one.requirement.id)
    return [
        replace(one, same_as=head) if one.status == FAIL and (head := heads[_cause(one)]) != one.requirement.id else one
        for one in results
    ]


def _cause(result: Result) -> str:
    """Returns the cause of a failure, to compare it: the hook's act and, where it matters, the expected one."""
    said = _DURING.sub("", result.said)
    return _WHERE.sub("", said if _TELLS_ALL.match(said) else f"{said}; {result.expected}")


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all requirements."""

    manifest: Manifest
    subject: str
    """The subject of the report: the hook's command, or the host that ran the probe."""
    results: Sequence[Result]
    complete: bool = True
    """False while a probe runs, and after its host has killed it."""

    @property
    def ok(self) -> bool:
        """Whether every MUST holds, and all of the run was seen."""
        return self.complete and not any(result.broken for result in self.results)

    def count(self, status: str) -> int:
        """Returns how many requirements have this status."""
        return sum(result.status == status for result in self.results)

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return {
            "format": FORMAT,
            "protocol": self.manifest.protocol,
            "side": self.manifest.side,
            "subject": self.subject,
            "ok": self.ok,
            "complete": self.complete,
            "requirements": [result.wire() for result in self.results],
        }


def merged(reports: Sequence[Report]) -> Report:
    """Returns one report of several probes of a host, with what one of them found of each requirement, a failure first."""
    first = reports[0]
    rank = {FAIL: 0, PASS: 1, SKIP: 2, UNTRIED: 3}
    results = [
        min(results, key=lambda one: rank[one.status])
        for results in zip(*(report.results for report in reports), strict=True)
    ]
    return Report(first.manifest, first.subject, results, all(report.complete for report in reports))


def read(data: Mapping[str, Any], manifest: Manifest) -> Report:
    """Returns a report from its JSON form. Raises `LookupError` or `TypeError` if it is not one."""
    known = {one.id: one for one in manifest.requirements}
    results = [
        Result(known[one["id"]], one["status"], one.get("expected", ""), one.get("said", ""), one.get("same_as", ""))
        for one in data["requirements"]
    ]
    return Report(manifest, data["subject"], results, data["complete"])


def junit(report: Report) -> bytes:
    """Returns the report as JUnit's XML. A failed MUST is a failure. Any other failed requirement is skipped, with a reason."""
    suites = ET.Element("testsuites")
    name = f"picohook conformance: {escape(report.subject)}"
    suite = ET.SubElement(suites, "testsuite", name=name, tests=str(len(report.results)), errors="0")
    for result in report.results:
        one = result.requirement
        case = ET.SubElement(
            suite, "testcase", classname=f"picohook.{report.manifest.side}", name=f"{one.id} {one.level} {one.title}"
        )
        if result.broken and not result.same_as:
            untried = "not tried: " if result.status == UNTRIED else ""
            ET.SubElement(case, "failure", message=f"{untried}{result.said}").text = f"{result.expected}\n{result.said}"
        elif result.status != PASS:
            why = f"the same cause as {result.same_as}" if result.same_as else result.said
            ET.SubElement(case, "skipped", message=f"{one.level}: {why}" if result.status == FAIL else why)
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    written: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def require_writable(path: str) -> None:
    """Raise the `OSError` that `save` would raise."""
    with place(path) as found:
        found.require_writable()


def save(path: str, data: bytes) -> None:
    """Write a file whole, or not at all. Raises `OSError`."""
    with place(path) as found:
        found.replace(data)
