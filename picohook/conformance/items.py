"""The tests that the pytest plugin adds: one for each requirement."""

import shlex
from collections.abc import Iterable
from typing import Any

import pytest

from ..errors import PicohookError
from ..model.stages import STAGES
from .hook import expectations_of, run
from .manifest import MUST, Requirement, load
from .report import FAIL, SKIP, Report


class Conformance:
    """One hook, which is run once for all selected tests."""

    def __init__(self, config: pytest.Config) -> None:
        try:
            self._command = shlex.split(config.getoption("--picohook-hook"))
        except ValueError as error:
            raise pytest.UsageError(f"--picohook-hook: {error}") from None
        self._stages = config.getoption("--picohook-stages").replace(",", " ").split()
        if unknown := [stage for stage in self._stages if stage not in STAGES]:
            raise pytest.UsageError(f"--picohook-stages: unknown stage {unknown[0]!r}: use {', '.join(STAGES)}")
        self._profile = config.getoption("--picohook-profile")
        try:
            expectations_of(load("hook"), self._stages, self._profile)
        except PicohookError as error:
            raise pytest.UsageError(f"--picohook-profile: {error}") from None
        self._report: Report | None = None

    @pytest.hookimpl(tryfirst=True)  # so that -k selects from these too
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add a test for each requirement."""
        kit = _Kit.from_parent(session, name="picohook", nodeid="picohook")
        items += [
            _Item.from_parent(kit, name=one.id, conformance=self, requirement=one) for one in load("hook").requirements
        ]

    def report(self, session: pytest.Session) -> Report:
        """Returns the results of the selected requirements."""
        if self._report is None:
            only = [item.requirement.id for item in session.items if isinstance(item, _Item)]
            self._report = run(self._command, only=only, stages=self._stages, profile=self._profile)
        return self._report


class _Kit(pytest.Collector):
    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        return ()


class _Item(pytest.Item):
    def __init__(self, *, conformance: Conformance, requirement: Requirement, **settings: Any) -> None:
        super().__init__(**settings)
        self.requirement = requirement
        self._conformance = conformance

    def runtest(self) -> None:
        one = self.requirement
        try:
            report = self._conformance.report(self.session)
        except PicohookError as error:
            pytest.fail(str(error), pytrace=False)
        result = next(found for found in report.results if found.requirement is one)
        if result.status == SKIP:
            pytest.skip(result.said)
        if result.same_as:
            pytest.skip(f"the same cause as {result.same_as}")
        if result.status == FAIL and one.level != MUST:
            pytest.xfail(f"{one.level}: {one.title}: {result.said}")
        if result.status == FAIL:
            pytest.fail(f"it {one.title}: {one.wants}\nexpected {result.expected}\n{result.said}", pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        return "picohook", None, f"{self.requirement.id} {self.requirement.title}"
