from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

from fixtures import _no_process_is_left, board, journal  # noqa: F401


class Output:
    """A logger that keeps what hooks write on stderr, and what the host warns of."""

    def __init__(self):
        self.stderr = []
        self.warnings = []

    def debug(self, event, **fields):
        pass

    def info(self, event, **fields):
        if event == "stderr":
            self.stderr.append(fields["line"])

    def warning(self, event, **fields):
        self.warnings.append((event, fields))

    error = warning


@pytest.fixture
def output():
    return Output()
