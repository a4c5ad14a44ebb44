"""A pytest plugin: `pytest -p picohook.conformance.plugin --picohook-hook="python3 hook.py"` tests each requirement.

Only a run that names the plugin loads it. Without `--picohook-hook` it only adds its options.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("picohook", "hooks for agents")
    group.addoption(
        "--picohook-hook", metavar="CMD", help="Check this hook against the protocol: a test for each requirement."
    )
    group.addoption("--picohook-stages", metavar="A,B", default="", help="Stages that the hook must have.")
    group.addoption(
        "--picohook-profile",
        metavar="NAME",
        help="The system that the hook is for: picoclaw, or picohook for every stage.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the tests if the run names a hook."""
    if config.getoption("--picohook-hook"):
        from .items import Conformance  # a run without a hook does not need it

        config.pluginmanager.register(Conformance(config), "picohook-conformance")
