"""`--quick`: the tests that start no process, and the first one of each directory that does. It says what it left out.

There is no list of them. A test starts a process when it, a fixture of it, or a function of the tests that one of these
mentions, mentions what starts one.
"""

from __future__ import annotations

import functools
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
STARTS = {
    "Plan",
    "command",
    "executable",
    "fork",
    "from_config",
    "posix_spawn",
    "preload",
    "preloaded",
    "run_process",
    "scripted",
    "stray",
    "subprocess",
}
"""Names that functions mention which start processes."""
FIXTURES = {"board", "script", "shell_hook", "tier"}
"""Fixtures of tests that start processes: processes call in, shell commands, programs, and containment."""
LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out nearly all tests that start processes")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    kept, left_out, tried = [], [], set()
    for item in items:
        suite = suite_of(item)
        if starts_a_process(item) and suite in tried:
            left_out.append(item)
        else:
            kept.append(item)
            if starts_a_process(item):
                tried.add(suite)
    items[:] = kept
    config.stash[LEFT_OUT] = Counter(map(suite_of, left_out))
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--quick"):
        left_out = config.stash[LEFT_OUT]
        suites = ", ".join(f"{suite} {count}" for suite, count in left_out.most_common())
        terminalreporter.section("left out")
        terminalreporter.line(f"{left_out.total()} tests that start processes: {suites or 'none'}")
        terminalreporter.line("make test runs them all")


def suite_of(item: pytest.Item) -> str:
    return str(item.path.parent.relative_to(HERE))


def starts_a_process(item: pytest.Item) -> bool:
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public way to them
    defined = [one.func for several in fixtures.values() for one in several]
    return not FIXTURES.isdisjoint(fixtures) or any(map(mentions_a_start, [item.function, *defined]))  # type: ignore[attr-defined]


@functools.cache
def mentions_a_start(function: Any) -> bool:
    return any(STARTS & names_in(one.__code__) for one in reached(function))


def reached(function: Any) -> set[types.FunctionType]:
    """This function, and all of the tests' own that it leads to."""
    found: set[types.FunctionType] = set()
    left = [function]
    while left:
        one = left.pop()
        if isinstance(one, type):
            left += [method for method in vars(one).values() if isinstance(method, types.FunctionType)]
        elif isinstance(one, functools.partial):
            left.append(one.func)
        elif (
            isinstance(one, types.FunctionType) and one not in found and HERE in Path(one.__code__.co_filename).parents
        ):
            found.add(one)
            left += [one.__globals__[name] for name in names_in(one.__code__) if name in one.__globals__]
            left.append(getattr(one, "__wrapped__", None))
    return found


@functools.cache
def names_in(code: types.CodeType) -> frozenset[str]:
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return frozenset(code.co_names).union(*map(names_in, inner))
