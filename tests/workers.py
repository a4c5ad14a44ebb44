"""`--workers N`: the tests in N processes, which are forked when all tests are collected and all modules imported.

Each takes the number of its next test from a file that all of them read, and reports what came of the test. Tests with the mark
`one_worker(NAME)` go to the same process. A test that has no report, since its process ended, has failed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import tempfile
import traceback
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._io import TerminalWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

WIDTH = 4
"""Bytes of a number in the file."""
OVER = -1
"""The number with which a worker ends, which may leave a process behind that holds its pipe."""
BASE = pytest.StashKey["Path"]()
"""The directory for temporary files of all workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", default="0", metavar="N", help="run the tests in N processes, or auto")
    parser.addoption("--count", action="append", metavar="PATH", help="count coverage in the tests at this path only")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_worker(name): one process takes all tests of this name")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = workers(session.config)
    if count < 2 or session.testsfailed:
        return None
    gc.collect()
    gc.freeze()  # what is collected is shared by all, as long as nothing writes to it
    session.config.pluginmanager.getplugin("terminalreporter").showfspath = False  # the workers' tests come mixed
    run(session, min(count, len(session.items)))
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def workers(config: pytest.Config) -> int:
    """How many there will be; `auto` is two more than processors, since tests wait for processes. Under two there are none."""
    option = config.getoption("--workers")
    if config.option.collectonly:
        return 0
    return (os.cpu_count() or 1) + 2 if option == "auto" else int(option)


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """One directory for all workers."""
    return request.config.stash.get(BASE, None) or tmp_path_factory.getbasetemp()


def run(session: pytest.Session, count: int) -> None:
    """Fork the workers, and report what they report."""
    session.config.stash[BASE] = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    with tempfile.TemporaryFile(buffering=0) as queue:
        units = units_of(session.items)
        queue.write(b"".join(number.to_bytes(WIDTH, "big") for number in range(len(units))))
        queue.seek(0)
        workers = {}
        for name in range(count):
            reports, written = connection.Pipe(duplex=False)
            pid = os.fork()
            if not pid:
                work(session, f"worker-{name}", taken(queue.fileno(), units), written)
            written.close()
            workers[pid] = reports
        try:
            left = gather(session, [*workers.values()], queue.fileno())
        except BaseException:
            for pid in workers:
                os.kill(pid, signal.SIGTERM)
            raise
        finally:
            statuses = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers}
    if not session.shouldfail:
        for number in left:
            why = f"its process ended before it had a report; exit codes: {sorted(statuses)}"
            item = session.items[number]
            report(session, pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call"))


def units_of(items: Sequence[pytest.Item]) -> list[list[int]]:
    """The numbers of the tests, with those that one worker takes together and first: they take longest."""
    together: dict[str, list[int]] = {}
    alone = []
    for number, item in enumerate(items):
        if mark := item.get_closest_marker("one_worker"):
            together.setdefault(mark.args[0], []).append(number)
        else:
            alone.append([number])
    return [*together.values(), *alone]


def gather(session: pytest.Session, workers: list[connection.Connection], queue: int) -> list[int]:
    """Report until all workers have ended. Returns the tests without a report."""
    left = set(range(len(session.items)))
    while workers:
        for worker in connection.wait(workers):
            try:
                number, reports = worker.recv()
            except EOFError:
                number, reports = OVER, []
            if number == OVER:
                workers.remove(worker)
                worker.close()
            left.discard(number)
            for data in reports:
                report(session, session.config.hook.pytest_report_from_serializable(config=session.config, data=data))
        if session.shouldfail:
            os.lseek(queue, 0, os.SEEK_END)
    return sorted(left)


def report(session: pytest.Session, one: pytest.TestReport) -> None:
    session.config.hook.pytest_runtest_logreport(report=one)
    if one.when != "setup":
        session.config.hook.pytest_runtest_logfinish(nodeid=one.nodeid, location=one.location)


# In a worker.


def taken(queue: int, units: list[list[int]]) -> Iterator[int]:
    """The tests that this worker takes. All workers have the same place in the file, so each number is read once."""
    while number := os.read(queue, WIDTH):
        yield from units[int.from_bytes(number, "big")]


class Reports:
    """The reports of a test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._reports.append(hook.pytest_report_to_serializable(config=self._config, report=report))

    def take(self) -> list[Any]:
        taken, self._reports = self._reports, []
        return taken


def work(session: pytest.Session, name: str, numbers: Iterator[int], written: connection.Connection) -> None:
    """Run tests, and end the process."""
    code = 1
    try:
        settle(session.config, name)
        reports, coverage = Reports(session.config), Coverage(session.config)
        session.config.pluginmanager.register(reports)
        number = next(numbers, None)
        while number is not None:
            following = next(numbers, None)
            item, next_item = (None if one is None else session.items[one] for one in (number, following))
            coverage.count(item)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            written.send((number, reports.take()))
            number = following
        coverage.save()
        code = 0
    except BaseException:  # shown here, and its tests fail
        traceback.print_exc()
    with contextlib.suppress(OSError):
        written.send((OVER, []))
    os._exit(code)


def settle(config: pytest.Config, name: str) -> None:
    """Have a directory, and files for captured output, that are not the other workers', and print nothing."""
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.mktemp(name, numbered=False)
    silent = TerminalWriter(open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
    config.pluginmanager.getplugin("terminalreporter")._tw = silent  # a time-out writes to it, too
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


class Coverage:
    """What this process counts, where `coverage run` started it. Counting makes a test take twice as long."""

    def __init__(self, config: pytest.Config) -> None:
        self._coverage = sys.modules["coverage"].Coverage.current() if "coverage" in sys.modules else None
        self._paths = [config.invocation_params.dir / path for path in config.getoption("--count") or ()]
        self._counts = self._coverage is not None

    def count(self, item: pytest.Item) -> None:
        """Go on counting for a test at one of the paths of `--count`, and stop for any other. On trio a test repeats itself."""
        if self._coverage is None or not self._paths:
            return
        counts = any(item.path.is_relative_to(path) for path in self._paths) and not on_trio(item)
        if counts != self._counts:
            (self._coverage.start if counts else self._coverage.stop)()
            self._counts = counts

    def save(self) -> None:
        if self._coverage is not None:
            self._coverage.stop()
            self._coverage.save()


def on_trio(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("anyio_backend", ("",))[0] == "trio"
