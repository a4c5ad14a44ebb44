"""Marks tests with the faults that they are about, and makes the table of faults of what came of them.

`--faults=write` writes the page, `--faults=check` fails where a fault is not shown to be met, or the page says something else.
Both are for runs of all tests, or of all that `-m fault` selects.
"""

from __future__ import annotations

import pytest
from table import PAGE, Table, ids_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", choices=["write", "check"], help="make or check the table of faults in docs")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(*ids): what a test is about; comes from its name")
    if config.getoption("--faults"):
        config.pluginmanager.register(Gathered(write=config.getoption("--faults") == "write"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if ids := ids_of(item.nodeid):
            item.add_marker(pytest.mark.fault(*sorted(ids)))


class Gathered:
    """What came of the tests, as they end."""

    def __init__(self, *, write: bool) -> None:
        self._write = write
        self._results: dict[str, str] = {}
        self._said: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        earlier = self._results.get(report.nodeid)
        if report.failed or earlier is None or (report.when == "call" and earlier == "passed"):
            self._results[report.nodeid] = report.outcome

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        table = Table(self._results)
        self._said = [f"{fault}: {verdict}" for fault, verdict in table.wrong.items()]
        self._said += [f"{fault}: there is no such fault" for fault in sorted(table.unknown)]
        if self._write:
            PAGE.write_text(table.page(), encoding="utf-8")
        elif table.page() != PAGE.read_text(encoding="utf-8"):
            self._said.append(f"{PAGE.name} is stale: make faults")
        if self._said and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("faults")
        for line in self._said or [f"every fault is met, as {PAGE.name} shows"]:
            terminalreporter.line(line)
