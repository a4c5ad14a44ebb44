"""What came of a run: for programs as JSON, for CI as JUnit. Standard library only."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ..wire.text import escape
from .manifest import LEVELS, MUST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .manifest import Manifest, Requirement

PASS, FAIL, SKIP = "pass", "fail", "skip"
FORMAT = 1
"""The version of the JSON report."""
_DURING = re.compile(r"^in the run for [A-Z0-9-]+, ")
_WHERE = re.compile(r'"id": -?\d+|with id \d+|(hook\.)?\b(before|after|approve)_[a-z]+')
"""What of a failure says where it came, and not what."""
_TELLS_ALL = re.compile(r"it (ended with|closed its output|wrote (?!\{)|answered .*\"error\": \{)")
"""Failures whose cause is the same, whatever was expected: an end, a line that is no message, an error."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one requirement."""

    requirement: Requirement
    status: str
    expected: str = ""
    """Of a failure: what should have come."""
    said: str = ""
    """Of a failure: what came instead. Of one that was skipped: why. Escaped."""
    same_as: str = ""
    """Of a failure: the requirement that failed for the same cause, and counts for both."""

    @property
    def broken(self) -> bool:
        """Whether a MUST does not hold."""
        return self.status == FAIL and self.requirement.level == MUST

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        one = self.requirement
        shown = {"id": one.id, "level": one.level, "title": one.title, "status": self.status}
        if self.expected:
            shown["expected"] = self.expected
        if self.said:
            shown["said"] = self.said
        if self.same_as:
            shown["same_as"] = self.same_as
        return shown


def counted_once(results: Sequence[Result]) -> list[Result]:
    """The same results; each that failed for a cause that another failed for names that one. A MUST comes first."""
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
    """What the hook did, wherever it did it; and where it did nothing, what it was waited for with."""
    said = _DURING.sub("", result.said)
    return _WHERE.sub("", said if _TELLS_ALL.match(said) else f"{said}; {result.expected}")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of all of them."""

    manifest: Manifest
    subject: str
    """Who was tested: the command, or the host that ran the probe."""
    results: Sequence[Result]
    complete: bool = True
    """False while a probe still runs, and for ever when its host killed it."""

    @property
    def ok(self) -> bool:
        """Whether every MUST holds."""
        return not any(result.broken for result in self.results)

    def count(self, status: str) -> int:
        """How many came out so."""
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
    """Of several probes of one host: for each requirement the worst that one of them saw."""
    first = reports[0]
    rank = {FAIL: 0, PASS: 1, SKIP: 2}
    results = [
        min(results, key=lambda one: rank[one.status])
        for results in zip(*(report.results for report in reports), strict=True)
    ]
    return Report(first.manifest, first.subject, results, all(report.complete for report in reports))


def read(data: Mapping[str, Any], manifest: Manifest) -> Report:
    """A report in its JSON form. Raises `LookupError` or `TypeError` for what is none."""
    known = {one.id: one for one in manifest.requirements}
    results = [
        Result(known[one["id"]], one["status"], one.get("expected", ""), one.get("said", ""), one.get("same_as", ""))
        for one in data["requirements"]
    ]
    return Report(manifest, data["subject"], results, data["complete"])


def junit(report: Report) -> bytes:
    """The report as JUnit's XML: a failure is a MUST that does not hold, anything else that fails is skipped, with why."""
    suite = ET.Element(
        "testsuite",
        name=f"picohook conformance: {escape(report.subject)}",
        tests=str(len(report.results)),
        failures=str(sum(result.broken and not result.same_as for result in report.results)),
        errors="0",
        skipped=str(
            sum(result.status != PASS and not (result.broken and not result.same_as) for result in report.results)
        ),
    )
    for result in report.results:
        one = result.requirement
        case = ET.SubElement(
            suite, "testcase", classname=f"picohook.{report.manifest.side}", name=f"{one.id} {one.level} {one.title}"
        )
        if result.same_as:
            ET.SubElement(case, "skipped", message=f"{one.level}: the same cause as {result.same_as}")
        elif result.broken:
            ET.SubElement(case, "failure", message=result.said).text = f"{result.expected}\n{result.said}"
        elif result.status == FAIL:
            ET.SubElement(case, "skipped", message=f"{one.level}: {result.said}")
        elif result.status == SKIP:
            ET.SubElement(case, "skipped", message=result.said)
    suites = ET.Element("testsuites")
    suites.append(suite)
    written: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def require_place(path: str) -> None:
    """Raise the `OSError` that `save` would, before there is anything to lose."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    descriptor, temporary = _beside(path)
    os.close(descriptor)
    os.unlink(temporary)


def save(path: str, data: bytes) -> None:
    """Write a file whole, or not at all."""
    descriptor, temporary = _beside(path)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _beside(path: str) -> tuple[int, str]:
    return tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)), prefix=".conformance-")
