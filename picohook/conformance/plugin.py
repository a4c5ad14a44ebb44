"""For pytest: `pytest --picohook-hook="python3 hook.py"` has a test for each requirement.

Loaded in every run of pytest where picohook is installed: without the option it imports nothing and hooks into nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Three options."""
    group = parser.getgroup("picohook", "hooks for agents")
    group.addoption(
        "--picohook-hook", metavar="CMD", help="Hold this hook to the protocol: a test for each requirement."
    )
    group.addoption("--picohook-stages", metavar="A,B", default="", help="Stages that the hook must have.")
    group.addoption(
        "--picohook-profile", metavar="NAME", help="What it is for: picoclaw, or picohook with every stage."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Only where it is wanted, take part."""
    if config.getoption("--picohook-hook"):
        from .items import Conformance  # noqa: PLC0415 - see above

        config.pluginmanager.register(Conformance(config), "picohook-conformance")
